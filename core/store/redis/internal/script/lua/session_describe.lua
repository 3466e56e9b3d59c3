#!lua flags=allow-oom
-- session_describe.lua: count the messages of sessions, and return their locks and states.
-- KEYS[1..16] as in state.lua, then those of shared_bodies.lua, if it is loaded before, and of
--             sessions.lua
-- KEYS[17] states  hash  session -> state
-- ARGV[1..4] as in state.lua
-- ARGV[5] content  1: with the content of states
-- ARGV[6..] names of the sessions
-- Returns {'ok', for each session: available, locked (without delayed), deferred and delayed messages, ms when its
--         lock ends or 0, bytes of its state or -1, its state or ''...} | {'more'}: call again
local done = sweep()
wake()
if not done then return {'more'} end
local states, reply = KEYS[taken + 1], {'ok'}
for i = 6, #ARGV do
  local sid, size, state = keyOf(ARGV[i]), -1, ''
  for _, key in ipairs({available, held, idleDeferred, paused}) do
    reply[#reply + 1] = call('ZLEXCOUNT', key, '[' .. sid .. '\0', '(' .. sid .. '\1')
  end
  reply[#reply + 1] = tonumber(call('ZSCORE', sessionLocks, sid) or 0)
  if call('HEXISTS', states, sid) == 1 then
    size = call('HSTRLEN', states, sid)
    if ARGV[5] == '1' then state = call('HGET', states, sid) end
  end
  reply[#reply + 1] = size
  reply[#reply + 1] = state
end
return reply
