-- settle_plain.lua: settle.lua for completions, if all messages are locked. The loader puts it
-- before state.lua. Most calls end here. Creating the functions of state.lua would cost more than
-- the commands. Instead of runs, it takes
-- ARGV[5]    blocks
-- ARGV[6..]  for each block of 128 numbers in which a lock call has locked messages: the member that locks
--            has while they are one block; their bits, as in blocks; their count; their ids in the stream
if ARGV[5] == 'blocks' then
  local call, format, sub = redis.call, string.format, string.sub
  local locked = tonumber(call('HGET', KEYS[2], 'd') or 0) > tonumber(ARGV[1])
  local names, starts, at = {}, {}, 6
  while at <= #ARGV do
    names[#names + 1], starts[#starts + 1] = ARGV[at], at
    at = at + 3 + ARGV[at + 2]
  end
  local function addMembers(members, i)
    local nonce = sub(names[i], 16, 23)
    for j = starts[i] + 3, starts[i] + 2 + ARGV[starts[i] + 2] do
      members[#members + 1] = format('%015d', sub(ARGV[j], 3)) .. nonce
    end
  end

  -- A single lock is removed immediately, which saves a command. It may also be in a block.
  local lone = locked and #ARGV == 9 and call('ZREM', KEYS[3], format('%015d', sub(ARGV[9], 3)) .. sub(ARGV[6], 16, 23)) == 1
  if locked and not lone then
    local kept, ended, singles, band = {}, {}, {}, bit.band -- blocks with the bits that stay; blocks that end; other locks
    for i, bits in ipairs(call('HMGET', KEYS[16], unpack(names))) do
      local mask = ARGV[starts[i] + 1]
      if not bits then
        addMembers(singles, i)
      elseif bits == mask then
        ended[#ended + 1] = names[i]
      else
        local a, b, c, d = struct.unpack('<I4I4I4I4', bits)
        local e, f, g, h = struct.unpack('<I4I4I4I4', mask)
        locked = locked and band(a, e) == band(e) and band(b, f) == band(f) and band(c, g) == band(g) and band(d, h) == band(h)
        kept[#kept + 1] = names[i]
        kept[#kept + 1] = locked and struct.pack('<I4I4I4I4', a - e, b - f, c - g, d - h)
      end
    end
    if locked and #singles > 0 then
      local deadlines = call('ZMSCORE', KEYS[3], unpack(singles))
      for i = 1, #singles do locked = locked and deadlines[i] end
      if locked then call('ZREM', KEYS[3], unpack(singles)) end
    end
    if locked and #kept > 0 then call('HSET', KEYS[16], unpack(kept)) end
    if locked and #ended > 0 then
      call('HDEL', KEYS[16], unpack(ended))
      call('ZREM', KEYS[3], unpack(ended))
    end
  end
  if locked then
    local others, numbers, padded = call('EXISTS', KEYS[5], KEYS[6], KEYS[7], KEYS[10], KEYS[11]) > 0, {}, {}
    for _, start in ipairs(starts) do
      local first, last = start + 3, start + 2 + ARGV[start + 2]
      call('XDEL', KEYS[1], unpack(ARGV, first, last))
      for i = first, others and last or 0 do
        numbers[#numbers + 1] = sub(ARGV[i], 3)
        padded[#numbers] = format('%015d', numbers[#numbers])
      end
    end
    if others then
      call('HDEL', KEYS[5], unpack(numbers))
      call('HDEL', KEYS[6], unpack(numbers))
      call('ZREM', KEYS[7], unpack(numbers))
      call('ZREM', KEYS[10], unpack(padded))
      call('SREM', KEYS[11], unpack(numbers))
    end
    return {'ok'}
  end
  -- Pass the locks one by one to settle.lua.
  local members = {}
  for i = 1, #names do addMembers(members, i) end
  for i = #ARGV, 5, -1 do ARGV[i] = nil end
  ARGV[5], ARGV[6], ARGV[7] = 'complete', '', #members
  for i, member in ipairs(members) do ARGV[7 + i] = member end
end
