#!lua flags=no-writes
-- topic_get.lua: read a topic with its subscriptions at one moment.
-- KEYS[1] entities  hash  folded name -> <revision>:<id>:<record>
-- KEYS[2] names     zset  <kind>:<folded name>
-- KEYS[3] accessed  zset  folded names by last use (ms)
-- KEYS[4] versions  hash  ID of a topic -> version of its subscriptions
-- KEYS[5] fences    hash  ID of a topic -> the version that its partitions have not been told yet
-- ARGV[1] name      folded
-- Returns {'ok', version, version not told yet or 0, values, times of last use or nil}, the topic
--         first | {'not_found'}
local topic, prefix = ARGV[1], '2:' .. ARGV[1] .. '/subscriptions/'
if not redis.call('ZSCORE', KEYS[2], '1:' .. topic) then return {'not_found'} end
local names = {topic}
for _, member in ipairs(redis.call('ZRANGEBYLEX', KEYS[2], '[' .. prefix, '(' .. prefix .. '\255')) do
  names[#names + 1] = string.sub(member, 3)
end
local values, times = {}, {}
for i = 1, #names, 1000 do
  local to = math.min(i + 999, #names)
  for _, value in ipairs(redis.call('HMGET', KEYS[1], unpack(names, i, to))) do values[#values + 1] = value end
  for _, at in ipairs(redis.call('ZMSCORE', KEYS[3], unpack(names, i, to))) do times[#times + 1] = at end
end
local id = string.match(values[1], '^%d+:([^:]*):')
return {'ok', tonumber(redis.call('HGET', KEYS[4], id) or 0), tonumber(redis.call('HGET', KEYS[5], id) or 0), values, times}
