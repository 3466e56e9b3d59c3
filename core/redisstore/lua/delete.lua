#!lua flags=allow-oom
-- delete.lua: take an entity out of its namespace's catalogue.
-- KEYS[1] entities  hash  folded name -> <revision>:<id>:<record>
-- KEYS[2] names     zset  folded names
-- KEYS[3] accessed  zset  folded names by last use (ms)
-- ARGV[1] channel   where changes are told
-- ARGV[2] change    what is told there
-- ARGV[3] name      folded
-- Returns {'ok', value} | {'not_found'}
local value = redis.call('HGET', KEYS[1], ARGV[3])
if not value then return {'not_found'} end
redis.call('HDEL', KEYS[1], ARGV[3])
redis.call('ZREM', KEYS[2], ARGV[3])
redis.call('ZREM', KEYS[3], ARGV[3])
redis.call('PUBLISH', ARGV[1], ARGV[2])
return {'ok', value}
