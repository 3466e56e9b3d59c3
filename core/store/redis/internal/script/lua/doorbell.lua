#!lua flags=allow-oom
-- doorbell.lua: wake, once, the gateways that wait for messages of a partition.
-- KEYS[1] head  hash     field w is set while a gateway waits
-- KEYS[2] bell  channel  sharded doorbell of the partition
-- Returns {'ok'}
local armed = redis.call('HDEL', KEYS[1], 'w')
if armed == 1 then redis.call('SPUBLISH', KEYS[2], '') end
return {'ok'}
