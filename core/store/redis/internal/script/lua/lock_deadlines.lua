#!lua flags=no-writes
-- lock_deadlines.lua: return the times until which messages are locked.
-- KEYS[1] locks   zset  as in state.lua
-- KEYS[2] sessionNames  hash  as in sessions.lua
-- KEYS[3] sessionLocks  zset  as in sessions.lua
-- KEYS[4] blocks  hash  as in state.lua
-- ARGV[1] most    how many members of locks to search, those that end first
-- ARGV[2..] numbers, each once
-- Returns {'ok', deadline (ms) of each, '' where the message is not locked}
local wanted, reply = {}, {'ok'}
for i = 2, #ARGV do
  wanted[ARGV[i]] = i
  reply[i] = ''
end
local found = redis.call('ZRANGE', KEYS[1], 0, tonumber(ARGV[1]) - 1, 'WITHSCORES')
for i = 1, #found, 2 do
  local n, deadline = tonumber(string.sub(found[i], 1, 15)), found[i + 1]
  local at = wanted[string.format('%d', n)]
  if #found[i] == 24 then
    local bits = redis.call('HGET', KEYS[4], found[i]) or ''
    for j = 0, 8 * #bits - 1 do
      local its = wanted[string.format('%d', n + j)]
      if its and math.floor(string.byte(bits, math.floor(j / 8) + 1) / 2 ^ (j % 8)) % 2 == 1 then reply[its] = deadline end
    end
  elseif at then
    if tonumber(deadline) > 9007199254740991 then -- the lock ends with that of its session
      local name = redis.call('HGET', KEYS[2], n)
      deadline = name and redis.call('ZSCORE', KEYS[3], (string.gsub(name, '%z.*$', ''))) or ''
    end
    reply[at] = deadline
  end
end
return reply
