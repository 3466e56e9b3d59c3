-- settle_plain.lua: settle.lua for one run of completed messages, all of which are locked. The loader
-- puts it in front of state.lua. Most calls end here, before state.lua makes its functions, which costs
-- more than the commands do.
if ARGV[5] == 'complete' and #ARGV == 7 + tonumber(ARGV[7]) then
  local call, locked = redis.call, false
  if tonumber(call('HGET', KEYS[2], 'd') or 0) > tonumber(ARGV[1]) then
    if #ARGV == 8 then -- a lone lock is removed at once: one command less
      locked = call('ZREM', KEYS[3], ARGV[8]) == 1
    else
      local deadlines = call('ZMSCORE', KEYS[3], unpack(ARGV, 8))
      locked = true
      for i = 1, #ARGV - 7 do locked = locked and deadlines[i] end
    end
  end
  if locked then
    local others, ids, numbers, padded = call('EXISTS', KEYS[5], KEYS[6], KEYS[7], KEYS[10], KEYS[11]) > 0, {}, {}, {}
    local format, sub = string.format, string.sub
    for i = 8, #ARGV do
      local pad = sub(ARGV[i], 1, 15)
      local n = format('%d', pad)
      ids[i - 7] = '0-' .. n
      if others then
        numbers[i - 7], padded[i - 7] = n, pad
      end
    end
    if #ARGV > 8 then call('ZREM', KEYS[3], unpack(ARGV, 8)) end
    call('XDEL', KEYS[1], unpack(ids))
    if others then
      call('HDEL', KEYS[5], unpack(numbers))
      call('HDEL', KEYS[6], unpack(numbers))
      call('ZREM', KEYS[7], unpack(numbers))
      call('ZREM', KEYS[10], unpack(padded))
      call('SREM', KEYS[11], unpack(numbers))
    end
    return {'ok'}
  end
end
