#!lua flags=no-writes
-- counts.lua: count the messages of a queue and its sub-queues by state, unless a sweep has something to do.
-- KEYS[1] expiry  zset  as in state.lua, of the queue itself, as are the next two
-- KEYS[2] sessionLocks  zset  as in sessions.lua
-- KEYS[3] freeSessions  zset  as in sessions.lua
-- KEYS[4..] of the queue and of each sub-queue: stream, head, locks, deferred, scheduled, blocks, as
--           in state.lua
-- ARGV[1] now  ms
-- Returns {'ok', locked sessions, free sessions with messages, then for each queue: ready, locked,
--         deferred, scheduled, last number given} | {'due'}: sweep first
local call, now = redis.call, ARGV[1]
local function isDue(key) return call('ZCOUNT', key, '-inf', now) > 0 end

if isDue(KEYS[1]) or isDue(KEYS[2]) then return {'due'} end
local reply = {'ok', call('ZCARD', KEYS[2]), call('ZCARD', KEYS[3])}
for i = 4, #KEYS, 6 do
  local stream, head, locks, deferred, scheduled, blocks = unpack(KEYS, i, i + 5)
  local length, held, set, due = call('XLEN', stream), 0, 0, 0
  local state = call('HMGET', head, 's', 'u')
  if state[2] then return {'due'} end
  if length > 0 then
    if isDue(locks) or isDue(scheduled) then return {'due'} end
    set, due = call('ZCARD', deferred), call('ZCARD', scheduled)
    held = countLocks(locks, blocks) - call('ZCOUNT', deferred, '(0', '+inf')
  end
  for _, n in ipairs({length - held - set - due, held, set, due, tonumber(state[1] or 0)}) do
    reply[#reply + 1] = n
  end
end
return reply
