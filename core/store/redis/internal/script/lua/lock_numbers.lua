#!lua flags=allow-oom
-- lock_numbers.lua: lock the messages with given numbers that are available.
-- KEYS[1..16] as in state.lua
-- ARGV[1..4] as in state.lua
-- ARGV[5]   until    deadline of the locks, ms; in a session their score in locks, as in
--                    session_lock_messages.lua
-- ARGV[6]   nonce    8 bytes, the secret half of the tokens; in a session the proof of its lock
-- ARGV[7]   session  '' or, with sessions.lua in front, the locked session of the messages
-- ARGV[8..] numbers, each once
-- Returns {'ok', as session_lock_messages.lua without entries} of those that are locked, in their
--         order | {'session_lock_lost'} | {'more'}: call again
if not sweep() then
  wake()
  return {'more'}
end
wake()
local deadline, nonce, sid = ARGV[5], sub(ARGV[6], 1, 8), ARGV[7]
local asked, numbers, members = {}, {}, {}
for i = 8, #ARGV do asked[#asked + 1] = ARGV[i] end
local function take(n)
  numbers[#numbers + 1] = n
  members[#members + 1] = ARGV[5]
  members[#members + 1] = pad(n) .. nonce
end

if session then
  if not holds(sid, ARGV[6]) then return {'session_lock_lost'} end
  deadline = call('ZSCORE', sessionLocks, sid)
  local theirs, found = {}, {}
  for i, n in ipairs(asked) do theirs[i] = sessionMember(sid, n) end
  local pause = isPaused(arrivals, sid)
  for i, isThere in ipairs(ask('ZMSCORE', available, theirs)) do
    if isThere and not pause then
      take(asked[i])
      found[#found + 1] = theirs[i]
      session.lock(asked[i], sid)
    end
  end
  many('ZREM', available, found)
else
  local state = call('HMGET', head, 's', 'c')
  local top, cursor = tonumber(state[1] or 0), tonumber(state[2] or 0)
  local delivered, isHole = ask('ZMSCORE', again, asked), ask('ZMSCORE', holes, asked)
  local redelivered, passed = {}, {}
  for i, n in ipairs(asked) do
    local isNew = tonumber(n) > cursor and tonumber(n) <= top and not isHole[i]
    if delivered[i] or isNew then take(n) end
    if delivered[i] then
      redelivered[#redelivered + 1] = n
    elseif isNew then -- a hole, so that the cursor passes it
      passed[#passed + 1] = n
      passed[#passed + 1] = n
    end
  end
  many('ZREM', again, redelivered)
  many('ZADD', holes, passed)
  if #numbers > 0 then noteDeadline(deadline) end
end
many('ZADD', locks, members)
return {'ok', deadline, 0, 0, numbers, ask('HMGET', counts, numbers), ask('HMGET', overrides, numbers), {}, {}}
