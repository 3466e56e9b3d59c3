#!lua flags=allow-oom
-- session_renew.lua: extend the lock of a session, unless it is lost.
-- KEYS[1..16] as in state.lua, then those of shared_bodies.lua, if it is loaded before, and of
--             sessions.lua
-- ARGV[1..4] as in state.lua
-- ARGV[5] until    the new deadline, ms
-- ARGV[6] proof    of its lock
-- ARGV[7] session  the locked session
-- Returns {'ok'} | {'session_lock_lost'} | {'more'}: call again
local done = sweep()
wake()
if not done then return {'more'} end
if not holds(ARGV[7], ARGV[6]) then return {'session_lock_lost'} end
call('ZADD', sessionLocks, ARGV[5], ARGV[7])
noteDeadline(ARGV[5])
return {'ok'}
