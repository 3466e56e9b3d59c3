#!lua flags=allow-oom
-- session_rekey.lua: give some messages of a session, its lock and its state to another name. If
-- there is a session of that name, the two become one, with the state that was set last. They must
-- not both be locked.
-- KEYS[1..15] as in state.lua, then those of shared_bodies.lua, if it is in front, and of
--             sessions.lua
-- KEYS[16] states    hash  as in session_state_set.lua
-- KEYS[17] changed   hash  as in session_state_set.lua
-- KEYS[18] stateful  zset  as in session_state_set.lua
-- ARGV[1..4] as in state.lua
-- ARGV[5] from  the session's former key
-- ARGV[6] name  of the session
-- ARGV[7..]  numbers of its messages
-- Returns {'ok'}
local states, changed, stateful = KEYS[taken + 1], KEYS[taken + 2], KEYS[taken + 3]
local from, name = ARGV[5], ARGV[6]
local sid = keyOf(name)
local written = sub(name, #sid + 1)

for i = 7, #ARGV do
  local n = ARGV[i]
  for _, key in ipairs({available, held, idleDeferred}) do
    if call('ZREM', key, sessionMember(from, n)) == 1 then call('ZADD', key, 0, sessionMember(sid, n)) end
  end
  if call('HEXISTS', sessionNames, n) == 1 then call('HSET', sessionNames, n, name) end
end

local set = call('HGET', changed, from)
if from == sid then
  if set then call('HSET', changed, sid, keyOf(set) .. written) end
  return {'ok'}
end
if set then
  local other = call('HGET', changed, sid)
  if not other or tonumber(keyOf(other)) <= tonumber(set) then
    call('HSET', states, sid, call('HGET', states, from))
    call('HSET', changed, sid, set .. written)
    call('ZADD', stateful, 0, sid)
  end
  call('HDEL', states, from)
  call('HDEL', changed, from)
  call('ZREM', stateful, from)
end
local nonce = call('HGET', holders, from)
if nonce then
  call('HSET', holders, sid, nonce)
  call('HDEL', holders, from)
  call('ZADD', sessionLocks, call('ZSCORE', sessionLocks, from), sid)
  call('ZREM', sessionLocks, from)
end
call('SREM', waiting, from)
call('ZREM', freeSessions, from)
if call('HEXISTS', holders, sid) == 1 then
  call('ZREM', freeSessions, sid)
else
  offerSession(sid)
end
wake()
return {'ok'}
