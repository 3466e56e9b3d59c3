#!lua
-- session_accept.lua: lock a session that nobody holds.
-- KEYS[1..15] as in state.lua, then those of shared_bodies.lua, where they are in front, and of sessions.lua
-- ARGV[1..4] as in state.lua
-- ARGV[5] until    deadline of the lock, ms
-- ARGV[6] proof    of the lock, as in sessions.lua
-- ARGV[7] which    one: the given | next: the one whose first available message has the lowest number
-- ARGV[8] name     of the given
-- Returns {'ok', 1, name of the session}: the given, or that which the first available message has | {'ok', 0, ms when the next is due or 0}: none is there, and the doorbell is armed |
--         {'session_locked'} | {'not_found'} | {'more'}: call again
local name = ARGV[8]
local sid = keyOf(name)
if call('EXISTS', stream) == 0 then
  if ARGV[7] == 'next' then return {'ok', 0, 0} end
  return {'not_found'}
end
if not sweep() then
  ring()
  return {'more'}
end
if ARGV[7] == 'next' then
  sid = call('ZRANGE', open, 0, 0)[1]
  if not sid then
    call('HSET', head, 'w', 1)
    ready = false
    ring()
    return {'ok', 0, nextDue()}
  end
  name = call('HGET', of, position(placed(waits, sid, 1)[1]))
elseif call('HEXISTS', holders, sid) == 1 then
  ring()
  return {'session_locked'}
end
call('ZREM', open, sid)
call('HSET', holders, sid, ARGV[6])
call('ZADD', slocks, ARGV[5], sid)
expect(ARGV[5])
ring()
return {'ok', 1, name}
