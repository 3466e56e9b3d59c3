#!lua flags=allow-oom
-- session_check.lua: return the times until which messages are locked in their sessions.
-- KEYS[1..16] as in state.lua, then those of shared_bodies.lua, if it is loaded before, and of
--             sessions.lua
-- ARGV[1..4] as in state.lua
-- ARGV[5..]  for each lock: member of locks; number
-- Returns {'ok', deadline (ms) of each, '' where the lock is lost} | {'more'}: call again
local done = sweep()
wake()
if not done then return {'more'} end
local reply = {'ok'}
for i = 5, #ARGV, 2 do
  local sid = call('ZSCORE', locks, ARGV[i]) and sessionOf(ARGV[i + 1])
  reply[#reply + 1] = sid and call('ZSCORE', sessionLocks, sid) or ''
end
return reply
