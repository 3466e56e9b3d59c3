#!lua
-- append.lua: store messages that expire, are scheduled or must not be doubled.
-- Plain messages go natively (append.go), so that their bodies stay out of Lua.
-- KEYS[1..15] as in state.lua
-- KEYS[16] seen  zset  ids within the duplicate window by first acceptance (ms)
-- ARGV[1..4] as in state.lua
-- ARGV[5]    window  length of the duplicate window in ms, 0: none
-- ARGV[6..]  for each message: id '' or the key of duplicate detection; due ms or ''; ttl ms or ''; record
-- Returns {'ok', n...}, 0 for a dropped duplicate | {'not_found'} | {'more'}: call again
local seen, window = KEYS[16], tonumber(ARGV[5])
if call('EXISTS', stream) == 0 then return {'not_found'} end
if not sweep() then
  ring()
  return {'more'}
end

local known, fresh = {}, {}
if window > 0 then
  local stale = call('ZRANGEBYSCORE', seen, '-inf', format('%.0f', now - window), 'LIMIT', 0, 1000 + #ARGV)
  many('ZREM', seen, stale)
  local ids = {}
  for i = 6, #ARGV, 4 do
    if ARGV[i] ~= '' then ids[#ids + 1] = ARGV[i] end
  end
  local since = ask('ZMSCORE', seen, ids)
  for i, id in ipairs(ids) do
    known[id] = since[i] and tonumber(since[i]) + window > now
  end
end

local reply, due, expiring, placeholders, last = {'ok'}, {}, {}, {}, nil
for i = 6, #ARGV, 4 do
  local id, at, ttl, record = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  if id ~= '' and known[id] then
    reply[#reply + 1] = 0
  else
    if id ~= '' and window > 0 then
      known[id] = true
      fresh[#fresh + 1] = ARGV[1]
      fresh[#fresh + 1] = id
    end
    local entry
    if ttl == '' then
      entry = call('XADD', stream, '0-*', 'd', record)
    else
      entry = call('XADD', stream, '0-*', 'd', record, 't', ttl)
    end
    last = sub(entry, 3)
    reply[#reply + 1] = tonumber(last)
    ready = true -- or will be: who waits must learn when to ask again
    if at ~= '' then
      due[#due + 1] = at
      due[#due + 1] = pad(last)
      placeholders[#placeholders + 1] = last
      placeholders[#placeholders + 1] = last
    elseif ttl ~= '' and main then
      expiring[#expiring + 1] = format('%.0f', now + tonumber(ttl))
      expiring[#expiring + 1] = pad(last)
    end
  end
end
many('ZADD', seen, fresh)
many('ZADD', scheduled, due)
many('ZADD', holes, placeholders)
many('ZADD', expiry, expiring)
if last then call('HSET', head, 's', last) end
ring()
return reply
