#!lua
-- partition_fill.lua: replace the keys of an empty partition with imported keys.
-- KEYS[1] stream         stream  of the queue or topic itself
-- KEYS[2] subscriptions  set     IDs of a topic's subscriptions
-- KEYS[3..] of each queue and sub-queue: stream, head, doorbell as in state.lua, and the imported
--          stream; then each other key and, behind it, the imported one
-- ARGV[1] fill    0: only check whether the partition is empty
-- ARGV[2] queues  how many
-- ARGV[3..] the number given last of each queue, then IDs of the subscriptions whose keys are among
--          them
-- Returns {'ok'} | {'not_found'} | {'already_exists'}: the partition is not empty | {'conflict'}:
--         the topic has other subscriptions
local call = redis.call
local queues = tonumber(ARGV[2])
if call('EXISTS', KEYS[1]) == 0 then return {'not_found'} end
if call('SCARD', KEYS[2]) ~= #ARGV - 2 - queues then return {'conflict'} end
for i = 3 + queues, #ARGV do
  if call('SISMEMBER', KEYS[2], ARGV[i]) == 0 then return {'conflict'} end
end
local rest = 3 + 4 * queues
for i = 3, rest - 1, 4 do
  if tonumber(call('HGET', KEYS[i + 1], 's') or 0) > 0 then return {'already_exists'} end
end
for i = rest, #KEYS, 2 do
  if call('EXISTS', KEYS[i]) == 1 then return {'already_exists'} end
end
if ARGV[1] == '0' then return {'ok'} end

local function place(from, to)
  if call('EXISTS', from) == 0 then return false end
  call('RENAME', from, to)
  call('PERSIST', to)
  return true
end

for i = rest, #KEYS, 2 do place(KEYS[i + 1], KEYS[i]) end
for q = 1, queues do
  local stream, head, bell, imported = unpack(KEYS, 4 * q - 1, 4 * q + 2)
  local last = ARGV[2 + q]
  if tonumber(last) > 0 then
    if not place(imported, stream) then
      call('XADD', stream, '0-' .. last, 'd', '')
      call('XDEL', stream, '0-' .. last)
    end
    call('XSETID', stream, '0-' .. last)
    call('HSET', head, 's', last, 'c', last)
    call('HDEL', head, 'd')
    if call('HDEL', head, 'w') == 1 then call('SPUBLISH', bell, '') end
  end
end
return {'ok'}
