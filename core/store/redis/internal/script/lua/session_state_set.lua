#!lua
-- session_state_set.lua: set or remove the state of a locked session.
-- KEYS[1..16] as in state.lua, then those of shared_bodies.lua, if it is loaded before, and of
--             sessions.lua
-- KEYS[17] states   hash  session -> state
-- KEYS[18] changed  hash  session -> when its state was set (ms) and, if the id differs from the
--                         key, a zero byte and the id
-- KEYS[19] stateful zset  sessions with state, all with score 0
-- ARGV[1..4] as in state.lua
-- ARGV[5] proof    of the session's lock
-- ARGV[6] name     of the locked session
-- ARGV[7] given    1: set the state, 0: remove it
-- ARGV[8] state
-- ARGV[9] full     1: the partition has no room for a larger state
-- Returns {'ok'} | {'session_lock_lost'} | {'quota_exceeded'} | {'more'}: call again
local done = sweep()
wake()
if not done then return {'more'} end
if not holds(keyOf(ARGV[6]), ARGV[5]) then return {'session_lock_lost'} end
if ARGV[9] == '1' and isLarger(KEYS[taken + 1], ARGV[6], ARGV[7], ARGV[8]) then return {'quota_exceeded'} end
setState(KEYS[taken + 1], KEYS[taken + 2], KEYS[taken + 3], ARGV[6], ARGV[7], ARGV[8])
return {'ok'}
