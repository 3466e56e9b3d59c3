-- append_lock_plain.lua: append_lock.lua for a queue that has no available messages, and on which
-- only the calling gateway waits. The loader puts it before state.lua. Most calls at ordinary rates
-- end here, because creating the functions of state.lua would cost more than the commands.
do
  local call, state = redis.call, redis.call('HMGET', KEYS[2], 'd', 'w', 's', 'c')
  local due, count = tonumber(state[1] or 0), (#ARGV - 13) / 6
  local plain = due > tonumber(ARGV[1]) and state[2] == ARGV[9] and state[3] == state[4] and count <= tonumber(ARGV[7]) and
    call('EXISTS', KEYS[4]) == 0
  for i = 14, #ARGV, 6 do
    plain = plain and ARGV[i] == '' and ARGV[i + 1] == '' and ARGV[i + 2] == '' and ARGV[i + 5] ~= ''
  end
  if plain then
    local appended, members, expiring, n = {'ok'}, {}, {}, nil
    for i = 14, #ARGV, 6 do
      local ttl, id = ARGV[i + 3], nil
      if ttl == '' then
        id = call('XADD', KEYS[1], 'NOMKSTREAM', '0-*', 'd', ARGV[i + 5])
      else
        id = call('XADD', KEYS[1], 'NOMKSTREAM', '0-*', 'd', ARGV[i + 5], 't', ttl)
      end
      if not id then return {'not_found'} end
      n = string.sub(id, 3)
      local pad = string.format('%015d', n)
      appended[#appended + 1] = tonumber(n)
      members[#members + 1] = ARGV[5]
      members[#members + 1] = pad .. ARGV[6]
      if ttl ~= '' and ARGV[2] == '0' then
        local expiry = tonumber(ARGV[1]) + tonumber(ttl)
        due = math.min(due, expiry)
        expiring[#expiring + 1] = string.format('%.0f', expiry)
        expiring[#expiring + 1] = pad
      end
    end
    due = string.format('%.0f', math.min(due, tonumber(ARGV[5])))
    call('ZADD', KEYS[3], unpack(members))
    if #expiring > 0 then call('ZADD', KEYS[10], unpack(expiring)) end
    call('HSET', KEYS[2], 's', n, 'c', n, 'd', due)
    return {'ok', appended, {'ok', 0, tonumber(due), {}, {}, {}, {appended[2], appended[#appended]}, {}}}
  end
end
