#!lua flags=allow-oom
-- ns_claim_removal.lua: lease a deleted namespace, to remove its contents.
-- KEYS[1] remains  zset  IDs of deleted namespaces by the end of the lease on their removal (ms)
-- ARGV[1] now      ms, from the caller's clock
-- ARGV[2] until    ms, end of the lease
-- Returns {'ok', ID} | {'ok'}: there is none
local id = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, 1)[1]
if not id then return {'ok'} end
redis.call('ZADD', KEYS[1], ARGV[2], id)
return {'ok', id}
