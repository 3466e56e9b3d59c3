#!lua flags=allow-oom
-- session_renew.lua: extend the lock of a session that still stands.
-- KEYS[1..15] as in state.lua, then those of shared_bodies.lua, where they are in front, and of sessions.lua
-- ARGV[1..4] as in state.lua
-- ARGV[5] until    the new deadline, ms
-- ARGV[6] proof    the lock's
-- ARGV[7] session  the locked
-- Returns {'ok'} | {'session_lock_lost'} | {'more'}: call again
local done = sweep()
ring()
if not done then return {'more'} end
if not holds(ARGV[7], ARGV[6]) then return {'session_lock_lost'} end
call('ZADD', slocks, ARGV[5], ARGV[7])
expect(ARGV[5])
return {'ok'}
