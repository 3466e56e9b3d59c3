#!lua flags=allow-oom
-- session_release.lua: end the lock of a session and the locks of its messages, without counting
-- failed deliveries.
-- KEYS[1..16] as in state.lua, then those of shared_bodies.lua, if it is loaded before, and of
--             sessions.lua
-- ARGV[1..4] as in state.lua
-- ARGV[5] proof    of its lock, or '' for any: then the doorbell rings for its holder
-- ARGV[6] session  the locked session
-- Returns {'ok'} | {'session_lock_lost'} | {'more'}: call again
if not sweep() then
  wake()
  return {'more'}
end
local sid, any = ARGV[6], ARGV[5] == ''
if any and call('HEXISTS', holders, sid) == 0 or not any and not holds(sid, ARGV[5]) then
  wake()
  return {'session_lock_lost'}
end
if not endLocks(sessionMembers(held, sid, -1), 'release') then
  wake()
  return {'more'}
end
endSessionLock(sid)
if any then call('SPUBLISH', bell, sid) end
wake()
return {'ok'}
