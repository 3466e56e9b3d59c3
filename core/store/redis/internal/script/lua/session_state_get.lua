#!lua flags=allow-oom
-- session_state_get.lua: read the state of a locked session.
-- KEYS[1..16] as in state.lua, then those of shared_bodies.lua, if it is loaded before, and of
--             sessions.lua
-- KEYS[17] states  hash  session -> state
-- ARGV[1..4] as in state.lua
-- ARGV[5] proof    of the session's lock
-- ARGV[6] session  the locked session
-- Returns {'ok', state, nil if there is none} | {'session_lock_lost'} | {'more'}: call again
local done = sweep()
wake()
if not done then return {'more'} end
if not holds(ARGV[6], ARGV[5]) then return {'session_lock_lost'} end
return {'ok', call('HGET', KEYS[taken + 1], ARGV[6])}
