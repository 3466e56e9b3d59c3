#!lua
-- remember.lua: keep the state of a locked session.
-- KEYS[1..15] as in state.lua, then those of shared.lua, where they are in front, and of sessions.lua
-- KEYS[16] states   hash  session -> state
-- KEYS[17] changed  hash  session -> when its state was set (ms)
-- KEYS[18] stateful zset  sessions with state, all with score 0
-- ARGV[1..4] as in state.lua
-- ARGV[5] nonce    of the session's lock
-- ARGV[6] session  the locked
-- ARGV[7] given    1: there is a state, 0: forget it
-- ARGV[8] state    what to keep
-- Returns {'ok'} | {'session_lock_lost'} | {'more'}: call again
local done = sweep()
ring()
if not done then return {'more'} end
local states, changed, stateful, sid = KEYS[taken + 1], KEYS[taken + 2], KEYS[taken + 3], ARGV[6]
if not holds(sid, ARGV[5]) then return {'session_lock_lost'} end
if ARGV[7] == '1' then
  call('HSET', states, sid, ARGV[8])
  call('HSET', changed, sid, ARGV[1])
  call('ZADD', stateful, 0, sid)
else
  call('HDEL', states, sid)
  call('HDEL', changed, sid)
  call('ZREM', stateful, sid)
end
return {'ok'}
