#!lua flags=allow-oom
-- ns_delete.lua: remove a namespace from the registry, and record that its contents must be removed.
-- KEYS[1] namespaces  hash  folded name -> <revision>:<id>:<record>
-- KEYS[2] names       zset  folded names, all with score 0
-- KEYS[3] remains     zset  IDs of deleted namespaces by the end of the lease on their removal (ms)
-- ARGV[1] channel     on which changes are published
-- ARGV[2] change      the message on it
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
