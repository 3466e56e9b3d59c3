#!lua
-- entity_update.lua: replace an entity, unless it has changed since it was read.
-- KEYS[1] entities  hash  folded name -> <revision>:<id>:<record>
-- KEYS[2] versions  hash  ID of a topic -> version of its subscriptions
-- KEYS[3] fences    hash  ID of a topic -> the version that its partitions have not been told yet
-- KEYS[4] names     zset  <kind>:<folded name>
-- KEYS[5] rules     zset  as in entity_create.lua
-- ARGV[1] channel   on which changes are published
-- ARGV[2] change    the message on it
-- ARGV[3] name      folded
-- ARGV[4] topicID   of a subscription's topic, else ''
-- ARGV[5] basis     <revision>:<id>: of the entity that the update is based on
-- ARGV[6] value     as kept in entities
-- ARGV[7] largest   largest size of queues and topics together (MB), 0: no limit
-- ARGV[8..]  changes of rules: folded name; member of rules, or '' to remove the rule of that name
-- Returns {'ok', version of the topic or 0} | {'not_found'} | {'conflict'} | {'quota_exceeded'}
local value, version = redis.call('HGET', KEYS[1], ARGV[3]), 0
if not value then return {'not_found'} end
if string.sub(value, 1, #ARGV[5]) ~= ARGV[5] then return {'conflict'} end
local largest = tonumber(ARGV[7])
if ARGV[4] == '' and largest > 0 and sizeOf(ARGV[6]) > sizeOf(value) and
  sizes(KEYS[1], KEYS[4], ARGV[3]) + sizeOf(ARGV[6]) > largest then
  return {'quota_exceeded'}
end
if ARGV[4] ~= '' then
  version = redis.call('HINCRBY', KEYS[2], ARGV[4], 1)
  redis.call('HSET', KEYS[3], ARGV[4], version)
end
redis.call('HSET', KEYS[1], ARGV[3], ARGV[6])
for i = 8, #ARGV, 2 do
  local known = redis.call('ZRANGEBYLEX', KEYS[5], '[' .. ARGV[i] .. '\0', '(' .. ARGV[i] .. '\1')[1]
  if known then redis.call('ZREM', KEYS[5], known) end
  if ARGV[i + 1] ~= '' then redis.call('ZADD', KEYS[5], 0, ARGV[i + 1]) end
end
redis.call('PUBLISH', ARGV[1], ARGV[2])
return {'ok', version}
