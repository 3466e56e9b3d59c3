#!lua
-- session_accept.lua: lock a free session.
-- KEYS[1..16] as in state.lua, then those of shared_bodies.lua, if it is loaded before, and of
--             sessions.lua
-- ARGV[1..4] as in state.lua
-- ARGV[5] until    deadline of the lock, ms
-- ARGV[6] proof    of the lock, as in sessions.lua
-- ARGV[7] which    one: the named session | next: the free session that has waited longest
-- ARGV[8] name     of the session for one
-- Returns {'ok', 1, name of the session}: as given, or as its first available message has it |
--         {'ok', 0, ms when the next is due or 0}: none is free, and the doorbell is armed |
--         {'session_locked'} | {'not_found'} | {'more'}: call again
local name = ARGV[8]
local sid = keyOf(name)
if call('EXISTS', stream) == 0 then
  if ARGV[7] == 'next' then return {'ok', 0, 0} end
  return {'not_found'}
end
if not sweep() then
  wake()
  return {'more'}
end
if ARGV[7] == 'next' then
  sid = call('ZRANGE', freeSessions, 0, 0)[1]
  if not sid then
    call('HSET', head, 'w', 1)
    ready = false
    wake()
    return {'ok', 0, nextDue()}
  end
  name = call('HGET', sessionNames, sessionNumber(sessionMembers(available, sid, 1)[1]))
elseif call('HEXISTS', holders, sid) == 1 then
  wake()
  return {'session_locked'}
end
call('ZREM', freeSessions, sid)
call('HSET', holders, sid, ARGV[6])
call('ZADD', sessionLocks, ARGV[5], sid)
noteDeadline(ARGV[5])
wake()
return {'ok', 1, name}
