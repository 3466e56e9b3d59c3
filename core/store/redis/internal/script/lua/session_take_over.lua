#!lua flags=allow-oom
-- session_take_over.lua: pass the lock of a session, and the locks of its messages, to another holder.
-- KEYS[1..16] as in state.lua, then those of shared_bodies.lua, if it is loaded before, and of
--             sessions.lua
-- ARGV[1..4] as in state.lua
-- ARGV[5] until    the new deadline, ms
-- ARGV[6] nonce    of its lock
-- ARGV[7] session  the locked session
-- Returns {'ok', how often the lock has been taken over} | {'session_locked'}: it has another
--         nonce, or is exclusive | {'session_lock_lost'}: the session is not locked | {'more'}:
--         call again
--   The doorbell rings for the former holder.
local done = sweep()
wake()
if not done then return {'more'} end
local sid = ARGV[7]
local proof = call('HGET', holders, sid)
if not proof then return {'session_lock_lost'} end
local times = tonumber(sub(proof, 9))
if sub(proof, 1, 8) ~= ARGV[6] or not times then return {'session_locked'} end
call('HSET', holders, sid, ARGV[6] .. format('%d', times + 1))
call('ZADD', sessionLocks, ARGV[5], sid)
noteDeadline(ARGV[5])
call('SREM', waiting, sid)
call('SPUBLISH', bell, sid)
return {'ok', times + 1}
