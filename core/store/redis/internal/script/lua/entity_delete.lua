#!lua flags=allow-oom
-- entity_delete.lua: remove an entity from its namespace's catalogue, and a topic with its
-- subscriptions.
-- KEYS[1] entities  hash  folded name -> <revision>:<id>:<record>
-- KEYS[2] names     zset  <kind>:<folded name>
-- KEYS[3] accessed  zset  folded names by last use (ms)
-- KEYS[4] versions  hash  ID of a topic -> version of its subscriptions
-- KEYS[5] fences    hash  ID of a topic -> the version that its partitions have not been told yet
-- ARGV[1] channel   on which changes are published
-- ARGV[2] change    the message on it; a topic's subscriptions are added
-- ARGV[3] name      folded
-- ARGV[4] basis     <revision>:<id>: of the entity to delete
-- ARGV[5] kind      digit of its kind
-- ARGV[6] topicID   ID of a subscription's topic; a topic's own; else ''
-- Returns {'ok', version of a subscription's topic or 0, then name and value of each deleted
--         entity} | {'not_found'} | {'conflict'}: it has changed
local entities, names, accessed, change, name, id = KEYS[1], KEYS[2], KEYS[3], ARGV[2], ARGV[3], ARGV[6]
local value, version = redis.call('HGET', entities, name), 0
if not value then return {'not_found'} end
if string.sub(value, 1, #ARGV[4]) ~= ARGV[4] then return {'conflict'} end
local reply = {'ok', 0}
local function remove(member)
  local folded = string.sub(member, 3)
  reply[#reply + 1] = folded
  reply[#reply + 1] = redis.call('HGET', entities, folded) or ''
  redis.call('HDEL', entities, folded)
  redis.call('ZREM', names, member)
  redis.call('ZREM', accessed, folded)
end
remove(ARGV[5] .. ':' .. name)
if ARGV[5] == '1' then
  local prefix = '2:' .. name .. '/subscriptions/'
  for _, member in ipairs(redis.call('ZRANGEBYLEX', names, '[' .. prefix, '(' .. prefix .. '\255')) do
    change = change .. '\0' .. string.sub(member, 3)
    remove(member)
  end
  redis.call('HDEL', KEYS[4], id)
  redis.call('HDEL', KEYS[5], id)
elseif id ~= '' then
  reply[2] = redis.call('HINCRBY', KEYS[4], id, 1)
  redis.call('HSET', KEYS[5], id, reply[2])
end
redis.call('PUBLISH', ARGV[1], change)
return reply
