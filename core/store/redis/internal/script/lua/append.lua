#!lua
-- append.lua: store messages that expire, are scheduled, belong to a session, are checked for
-- duplicates or come from another entity. Plain messages are stored by native commands (append.go),
-- so that their bodies do not pass through Lua.
-- KEYS[1..16] as in state.lua, then those of shared_bodies.lua and sessions.lua, if they are
--             loaded before
-- KEYS[17] seen   zset  ids within the duplicate window by first acceptance (ms)
-- KEYS[18] moved  zset  keys of moves by first acceptance (ms)
-- ARGV[1..4] as in state.lua
-- ARGV[5]    window   length of the duplicate window in ms, 0: none
-- ARGV[6]    keyLife  how long keys of moves are kept, ms
-- ARGV[7..]  for each message: id for duplicate detection or ''; key of its move or ''; due ms or
--            '', followed by r for a message that is reserved until then; ttl ms or ''; name
--            of the session or ''; record, or '' to record only the id and the key
-- Returns {'ok', n...}, 0 for a dropped duplicate, -1 for a recorded one | {'not_found'} | {'more'}:
--         call again
local seen, moved = KEYS[taken + 1], KEYS[taken + 2]
if call('EXISTS', stream) == 0 then return {'not_found'} end
if not sweep() then
  wake()
  return {'more'}
end

-- lookUp returns which ids or keys of the messages were seen within life, and a function that notes
-- a new one.
local function lookUp(key, first, life)
  local known, fresh, ids = {}, {}, {}
  for i = first, #ARGV, 6 do
    if ARGV[i] ~= '' then ids[#ids + 1] = ARGV[i] end
  end
  if life > 0 and #ids > 0 then
    many('ZREM', key, call('ZRANGEBYSCORE', key, '-inf', format('%.0f', now - life), 'LIMIT', 0, 1000 + #ARGV))
    local since = ask('ZMSCORE', key, ids)
    for i, id in ipairs(ids) do
      known[id] = since[i] and tonumber(since[i]) + life > now
    end
  end
  return known, fresh, function(id)
    if id == '' or life <= 0 then return end
    known[id] = true
    fresh[#fresh + 1] = ARGV[1]
    fresh[#fresh + 1] = id
  end
end

local knownKeys, freshKeys, noteKey = lookUp(moved, 8, tonumber(ARGV[6]))
local known, fresh, noteID = lookUp(seen, 7, tonumber(ARGV[5]))
local reply, planned, expiring, placeholders, last = {'ok'}, {}, {}, {}, nil
local numbers, sids = {}, {} -- messages that become available in sessions
for i = 7, #ARGV, 6 do
  local id, key, at, ttl, sid, record = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5]
  local moves, repeats = knownKeys[key], known[id]
  if not moves then noteKey(key) end
  if moves or repeats then
    reply[#reply + 1] = 0
    if history and not moves and record ~= '' then history.add('d', 0, {record = record}) end
  elseif record == '' then
    noteID(id)
    reply[#reply + 1] = -1
  else
    noteID(id)
    local entry
    if ttl == '' then
      entry = call('XADD', stream, '0-*', 'd', record)
    else
      entry = call('XADD', stream, '0-*', 'd', record, 't', ttl)
    end
    last = sub(entry, 3)
    reply[#reply + 1] = tonumber(last)
    local reserved = sub(at, -1) == 'r'
    if history and not reserved then history.add(at == '' and 'a' or 's', last, {['until'] = at ~= '' and at or 0, record = record}) end
    if at ~= '' then
      local when = reserved and sub(at, 1, -2) or at
      planned[#planned + 1] = when
      planned[#planned + 1] = pad(last) .. (reserved and 'r' or '')
      noteDeadline(when)
      placeholders[#placeholders + 1] = last
      placeholders[#placeholders + 1] = last
      ready = true -- a waiting receiver must learn the new due time
      if sid ~= '' then session.noteScheduled(last, sid) end
    else
      if ttl ~= '' and canExpire then
        expiring[#expiring + 1] = format('%.0f', now + tonumber(ttl))
        noteDeadline(now + tonumber(ttl))
        expiring[#expiring + 1] = pad(last)
      end
      if sid == '' then
        ready = true
      else
        numbers[#numbers + 1], sids[#sids + 1] = last, sid
      end
    end
  end
end
many('ZADD', moved, freshKeys)
many('ZADD', seen, fresh)
many('ZADD', scheduled, planned)
if not session then many('ZADD', holes, placeholders) end
many('ZADD', expiry, expiring)
if session then session.add(numbers, sids) end
if last then
  call('HSET', head, 's', last)
  if session then call('HSET', head, 'c', last) end
end
wake()
return reply
