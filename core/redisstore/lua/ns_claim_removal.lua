#!lua flags=allow-oom
-- ns_claim_removal.lua: take it on to remove what a deleted namespace held.
-- KEYS[1] remains  zset  IDs of deleted namespaces by when somebody may begin to remove what they held (ms)
-- ARGV[1] now      ms, from the caller's clock
-- ARGV[2] until    ms when others may take over
-- Returns {'ok', ID} | {'ok'}: there is nothing to do
local id = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, 1)[1]
if not id then return {'ok'} end
redis.call('ZADD', KEYS[1], ARGV[2], id)
return {'ok', id}
