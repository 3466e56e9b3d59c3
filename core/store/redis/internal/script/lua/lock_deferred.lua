#!lua flags=allow-oom
-- lock_deferred.lua: lock deferred messages, given by number, all or none.
-- KEYS[1..16] as in state.lua
-- ARGV[1..4] as in state.lua
-- ARGV[5]    until   deadline of the locks, ms; in a session their score in locks, as in
--                    session_lock_messages.lua
-- ARGV[6]    nonce   8 bytes, the secret half of the tokens; in a session the proof of its lock
-- ARGV[7]    inline  also return the entries, if at most inline messages are locked
-- ARGV[8]    void    1: a number belongs elsewhere and cannot be found; expired messages still end
-- ARGV[9]    session '' or, with sessions.lua in front, the session of all messages
-- ARGV[10..] numbers, each once
-- Returns {'ok', as session_lock_messages.lua} in the order of the numbers |
--         {'message_not_found'} | {'session_lock_lost'} | {'more'}: call again
if not sweep() then
  wake()
  return {'more'}
end
local sid, deadline, nonce = ARGV[9], ARGV[5], sub(ARGV[6], 1, 8)
if session and not holds(sid, ARGV[6]) then
  wake()
  return {'session_lock_lost'}
end
local numbers, found = {}, ARGV[8] == '0'
for i = 10, #ARGV do numbers[#numbers + 1] = ARGV[i] end
local names = session and ask('HMGET', sessionNames, numbers) or {}
for i, lockEnd in ipairs(ask('ZMSCORE', deferred, numbers)) do
  if lockEnd ~= '0' or session and (not names[i] or keyOf(names[i]) ~= sid) then
    found = false
  elseif act('isOverdue', numbers[i]) then
    act('expire', numbers[i])
    found = false
    if budget <= 0 then
      wake()
      return {'more'}
    end
  end
end
wake()
if not found or call('EXISTS', stream) == 0 then return {'message_not_found'} end

local members, stamps = {}, {}
for _, n in ipairs(numbers) do
  members[#members + 1] = deadline
  members[#members + 1] = pad(n) .. nonce
  stamps[#stamps + 1] = deadline
  stamps[#stamps + 1] = n
  if session then session.lock(n, sid) end
end
many('ZADD', locks, members)
many('ZADD', deferred, stamps)
if not session then noteDeadline(deadline) end

local entries = {}
if #numbers <= tonumber(ARGV[7]) then
  for _, n in ipairs(numbers) do
    entries[#entries + 1] = call('XRANGE', stream, '0-' .. n, '0-' .. n)[1]
  end
end
if shared then shared.attach(entries) end
return {'ok', session and call('ZSCORE', sessionLocks, sid) or deadline, 0, 0, numbers, ask('HMGET', counts, numbers),
  ask('HMGET', overrides, numbers), {}, entries}
