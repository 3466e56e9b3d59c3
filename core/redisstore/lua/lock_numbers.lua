#!lua flags=allow-oom
-- lock_numbers.lua: lock those of some messages that are available, by number.
-- KEYS[1..15] as in state.lua
-- ARGV[1..4] as in state.lua
-- ARGV[5]   until  deadline of the locks, ms
-- ARGV[6]   nonce  8 bytes, the secret half of the tokens
-- ARGV[7..] numbers, each once
-- Returns {'ok', numbers, counts, overrides} of those that are locked, in their order |
--         {'more'}: call again
if not sweep() then
  wake()
  return {'more'}
end
wake()
local state = call('HMGET', head, 's', 'c')
local top, cursor = tonumber(state[1] or 0), tonumber(state[2] or 0)
local asked = {}
for i = 7, #ARGV do asked[#asked + 1] = ARGV[i] end
local delivered, isHole = ask('ZMSCORE', again, asked), ask('ZMSCORE', holes, asked)
local numbers, members, redelivered, passed = {}, {}, {}, {}
for i, n in ipairs(asked) do
  local isNew = tonumber(n) > cursor and tonumber(n) <= top and not isHole[i]
  if delivered[i] or isNew then
    numbers[#numbers + 1] = n
    members[#members + 1] = ARGV[5]
    members[#members + 1] = pad(n) .. ARGV[6]
  end
  if delivered[i] then
    redelivered[#redelivered + 1] = n
  elseif isNew then -- the cursor is to pass it
    passed[#passed + 1] = n
    passed[#passed + 1] = n
  end
end
many('ZREM', again, redelivered)
many('ZADD', holes, passed)
many('ZADD', locks, members)
if #numbers > 0 then noteDeadline(ARGV[5]) end
return {'ok', numbers, ask('HMGET', counts, numbers), ask('HMGET', overrides, numbers)}
