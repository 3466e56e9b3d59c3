#!lua
-- entity_create.lua: add an entity to a namespace's catalogue.
-- KEYS[1] entities  hash  folded name -> <revision>:<id>:<record>
-- KEYS[2] names     zset  <kind>:<folded name>, all with score 0: in alphabetical order
-- KEYS[3] accessed  zset  folded names by last use (ms)
-- KEYS[4] versions  hash  ID of a topic -> version of its subscriptions
-- KEYS[5] fences    hash  ID of a topic -> the version that its partitions have not been told yet
-- KEYS[6] seal      string  exists after the namespace has been deleted
-- KEYS[7] rules     zset    <folded name>\0<record> of a subscription's rules, all with score 0
-- ARGV[1] channel   on which changes are published
-- ARGV[2] change    the message on it
-- ARGV[3] name      folded
-- ARGV[4] kind      digit
-- ARGV[5] topic     folded name of a subscription's topic, else ''
-- ARGV[6] topicID   ID of that topic, else ''
-- ARGV[7] value     as kept in entities
-- ARGV[8] most      how many queues and topics are allowed, 0: any number
-- ARGV[9] largest   largest size of all queues and topics together (MB), 0: no limit
-- ARGV[10..]  members of rules
-- Returns {'ok', version of the topic or 0} | {'already_exists'} | {'not_found'}: the topic or the
--         namespace | {'quota_exceeded'}
local topic, id, version = ARGV[5], ARGV[6], 0
if redis.call('HEXISTS', KEYS[1], ARGV[3]) == 1 then return {'already_exists'} end
if redis.call('EXISTS', KEYS[6]) == 1 then return {'not_found'} end
if id ~= '' then
  local value = redis.call('ZSCORE', KEYS[2], '1:' .. topic) and redis.call('HGET', KEYS[1], topic)
  if not value or string.match(value, '^%d+:([^:]*):') ~= id then return {'not_found'} end
  version = redis.call('HINCRBY', KEYS[4], id, 1)
  redis.call('HSET', KEYS[5], id, version)
end
local most, largest = tonumber(ARGV[8]), tonumber(ARGV[9])
if id == '' and (most > 0 and redis.call('ZLEXCOUNT', KEYS[2], '[0:', '(2:') >= most or
  largest > 0 and sizes(KEYS[1], KEYS[2], ARGV[3]) + sizeOf(ARGV[7]) > largest) then
  return {'quota_exceeded'}
end
redis.call('HSET', KEYS[1], ARGV[3], ARGV[7])
redis.call('ZADD', KEYS[2], 0, ARGV[4] .. ':' .. ARGV[3])
redis.call('ZREM', KEYS[3], ARGV[3])
for i = 10, #ARGV do redis.call('ZADD', KEYS[7], 0, ARGV[i]) end
redis.call('PUBLISH', ARGV[1], ARGV[2])
return {'ok', version}
