#!lua flags=allow-oom
-- clear.lua: remove all messages of a partition, with all data about them and about sessions.
-- Numbers continue, and gateways that wait for messages keep waiting.
-- KEYS[1] subscriptions  set  IDs of a topic's subscriptions
-- KEYS[2..] of each queue and sub-queue: stream, head, bell as in state.lua, holders as in
--          sessions.lua; then all other keys, without the streams and heads
-- ARGV[1] queues  how many
-- ARGV[2..] IDs of subscriptions whose queues are among them
-- Returns {'ok'} | {'conflict'}: the topic has other subscriptions
local call = redis.call
if call('SCARD', KEYS[1]) ~= #ARGV - 1 then return {'conflict'} end
for i = 2, #ARGV do
  if call('SISMEMBER', KEYS[1], ARGV[i]) == 0 then return {'conflict'} end
end

local rest = 2 + 4 * ARGV[1]
local held = {}
for i = 2, rest - 1, 4 do
  if call('EXISTS', KEYS[i + 3]) == 1 then held[#held + 1] = KEYS[i + 2] end
end
for i = rest, #KEYS, 1000 do
  call('UNLINK', unpack(KEYS, i, math.min(i + 999, #KEYS)))
end
for i = 2, rest - 1, 4 do
  local stream, head = KEYS[i], KEYS[i + 1]
  local last = call('HGET', head, 's')
  if last and call('XLEN', stream) > 0 then
    -- A new stream replaces this one and continues its numbers: removing each message would take
    -- longer.
    call('UNLINK', stream)
    call('XADD', stream, '0-' .. last, 'd', '')
    call('XDEL', stream, '0-' .. last)
  end
  if last then call('HSET', head, 'c', last) end
end
-- Holders that wait for messages must learn that their sessions are lost.
for _, bell in ipairs(held) do call('SPUBLISH', bell, '') end
return {'ok'}
