#!lua
-- ns_update.lua: replace a namespace in the registry, unless it has changed since it was read.
-- KEYS[1] namespaces  hash  folded name -> <revision>:<id>:<record>
-- ARGV[1] channel     on which changes are published
-- ARGV[2] change      the message on it
-- ARGV[3] name        folded
-- ARGV[4] basis       <revision>:<id>: of the namespace that the update is based on
-- ARGV[5] value       as kept in namespaces
-- Returns {'ok'} | {'not_found'} | {'conflict'}
local value = redis.call('HGET', KEYS[1], ARGV[3])
if not value then return {'not_found'} end
if string.sub(value, 1, #ARGV[4]) ~= ARGV[4] then return {'conflict'} end
redis.call('HSET', KEYS[1], ARGV[3], ARGV[5])
redis.call('PUBLISH', ARGV[1], ARGV[2])
return {'ok'}
