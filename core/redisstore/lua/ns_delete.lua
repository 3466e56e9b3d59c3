#!lua flags=allow-oom
-- ns_delete.lua: take a namespace out of the registry, and note that what it held is to be removed.
-- KEYS[1] namespaces  hash  folded name -> <revision>:<id>:<record>
-- KEYS[2] names       zset  folded names, all with score 0
-- KEYS[3] remains     zset  IDs of deleted namespaces by when somebody may begin to remove what they held (ms)
-- ARGV[1] channel     where changes are told
-- ARGV[2] change      what is told there
-- ARGV[3] name        folded
-- ARGV[4] now         ms, from the caller's clock
-- Returns {'ok'} | {'not_found'}
local value = redis.call('HGET', KEYS[1], ARGV[3])
if not value then return {'not_found'} end
redis.call('HDEL', KEYS[1], ARGV[3])
redis.call('ZREM', KEYS[2], ARGV[3])
redis.call('ZADD', KEYS[3], ARGV[4], string.match(value, '^%d+:([^:]*):'))
redis.call('PUBLISH', ARGV[1], ARGV[2])
return {'ok'}
