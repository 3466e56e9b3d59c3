#!lua flags=allow-oom
-- session_release.lua: end the lock of a session, and those of its messages without a failed delivery.
-- KEYS[1..15] as in state.lua, then those of shared_bodies.lua, where they are in front, and of sessions.lua
-- ARGV[1..4] as in state.lua
-- ARGV[5] proof    the lock's
-- ARGV[6] session  the locked
-- Returns {'ok'} | {'session_lock_lost'} | {'more'}: call again
if not sweep() then
  ring()
  return {'more'}
end
local sid = ARGV[6]
if not holds(sid, ARGV[5]) then
  ring()
  return {'session_lock_lost'}
end
if not unlock(placed(held, sid, -1), 'free') then
  ring()
  return {'more'}
end
unhold(sid)
ring()
return {'ok'}
