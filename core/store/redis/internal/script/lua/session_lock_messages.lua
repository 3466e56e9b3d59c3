#!lua flags=allow-oom
-- session_lock_messages.lua: lock available messages of a session, by number.
-- KEYS[1..16] as in state.lua, then those of shared_bodies.lua, if it is loaded before, and of
--             sessions.lua
-- ARGV[1..4] as in state.lua
-- ARGV[5] proof    of the session's lock
-- ARGV[6] session  the locked session
-- ARGV[7] max      how many at most, up to 1000
-- ARGV[8] inline   also return the entries, if at most inline messages are locked
-- ARGV[9] score    in locks, of what this call locks: later than any deadline
-- Returns {'ok', until, then as lock.lua without runs} | {'session_lock_lost'} | {'more'}: call
--         again
--   until  ms when the session's lock ends
--   If fewer than max were found, the doorbell rings for the session when there are more.
local nonce, sid, max = sub(ARGV[5], 1, 8), ARGV[6], tonumber(ARGV[7])
if not sweep() then
  wake()
  return {'more'}
end
if not holds(sid, ARGV[5]) then
  wake()
  return {'session_lock_lost'}
end
local members = isPaused(arrivals, sid) and {} or sessionMembers(available, sid, max)
many('ZREM', available, members)
local numbers, locked, kept = {}, {}, {}
for i, member in ipairs(members) do
  numbers[i] = sessionNumber(member)
  locked[#locked + 1] = ARGV[9]
  locked[#locked + 1] = sub(member, -15) .. nonce
  kept[#kept + 1] = 0
  kept[#kept + 1] = member
end
many('ZADD', locks, locked)
many('ZADD', held, kept)

local next = 0
if #numbers < max then
  call('SADD', waiting, sid)
  call('HSET', head, 'a', 1)
  next = nextDue()
end
wake()

local entries = {}
if #numbers <= tonumber(ARGV[8]) then
  for _, n in ipairs(numbers) do
    entries[#entries + 1] = call('XRANGE', stream, '0-' .. n, '0-' .. n)[1]
  end
end
if shared then shared.attach(entries) end
return {'ok', call('ZSCORE', sessionLocks, sid), 0, next, numbers, ask('HMGET', counts, numbers), ask('HMGET', overrides, numbers),
  {}, entries}
