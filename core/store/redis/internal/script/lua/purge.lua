#!lua flags=allow-oom
-- purge.lua: remove available messages without reading them: first those that were delivered before, then new
-- ones.
-- KEYS[1..16] as in state.lua
-- ARGV[1..4] as in state.lua
-- ARGV[5] max   how many at most; one call removes up to 1000, or all messages
-- ARGV[6] upto  the highest number to remove, '' for the last one given
-- Returns {'ok', how many, upto, 1 if there may be more: call again} | {'more'}: call again
if call('EXISTS', stream) == 0 then return {'ok', 0, 0, 0} end
if not sweep() then
  wake()
  return {'more'}
end
wake()
local state = call('HMGET', head, 's', 'c')
local top, cursor, max = tonumber(state[1] or 0), tonumber(state[2] or 0), tonumber(ARGV[5])
local upto = tonumber(ARGV[6]) or top

local length = call('XLEN', stream)
if length == 0 then return {'ok', 0, upto, 0} end
if length <= max and upto >= top and not shared and not history and call('EXISTS', locks, deferred, scheduled) == 0 then
  -- The partition contains nothing else: unlink all keys, and Redis frees them in the background.
  -- The new stream continues the numbers.
  call('UNLINK', stream, again, counts, overrides, holes, expiry, overdue)
  if top > 0 then
    call('XADD', stream, format('0-%d', top), 'd', '')
    call('XDEL', stream, format('0-%d', top))
    call('HSET', head, 'c', format('%d', top))
  end
  return {'ok', length, upto, 0}
end

max = math.min(max, 1000)
local numbers = call('ZRANGEBYSCORE', again, '-inf', format('%d', upto), 'LIMIT', 0, max)
local due = call('ZRANGEBYSCORE', again, format('%.0f', neverDelivered), format('%.0f', neverDelivered + upto), 'LIMIT', 0, max - #numbers)
for _, n in ipairs(due) do numbers[#numbers + 1] = n end
many('ZREM', again, numbers)
local last = math.min(upto, cursor + 2000) -- one call looks at up to 2000 numbers
if #numbers < max and cursor < last then
  local isHole = {}
  for _, n in ipairs(call('ZRANGEBYSCORE', holes, format('(%d', cursor), format('%d', last))) do isHole[tonumber(n)] = true end
  while #numbers < max and cursor < last do
    cursor = cursor + 1
    if not isHole[cursor] then numbers[#numbers + 1] = format('%d', cursor) end
  end
  call('HSET', head, 'c', format('%d', cursor))
  call('ZREMRANGEBYSCORE', holes, '-inf', format('%d', cursor))
end

local ids, padded = {}, {}
for i, n in ipairs(numbers) do
  ids[i], padded[i] = '0-' .. n, pad(n)
  if history then history.add('c', n) end
end
many('XDEL', stream, ids)
many('HDEL', counts, numbers)
many('HDEL', overrides, numbers)
many('ZREM', expiry, padded)
if shared then shared.complete(numbers) end
return {'ok', #numbers, upto, (#numbers == max or cursor < upto) and 1 or 0}
