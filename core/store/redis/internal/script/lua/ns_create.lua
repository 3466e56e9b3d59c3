#!lua
-- ns_create.lua: add a namespace to the registry.
-- KEYS[1] namespaces  hash  folded name -> <revision>:<id>:<record>
-- KEYS[2] names       zset  folded names, all with score 0: in alphabetical order
-- ARGV[1] channel     on which changes are published
-- ARGV[2] change      the message on it
-- ARGV[3] name        folded
-- ARGV[4] value       as kept in namespaces
-- Returns {'ok'} | {'already_exists'}
if redis.call('HSETNX', KEYS[1], ARGV[3], ARGV[4]) == 0 then return {'already_exists'} end
redis.call('ZADD', KEYS[2], 0, ARGV[3])
redis.call('PUBLISH', ARGV[1], ARGV[2])
return {'ok'}
