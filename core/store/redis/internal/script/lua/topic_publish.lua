#!lua
-- topic_publish.lua: store the copies of publications in the queues of subscriptions.
-- KEYS[1..16] as in state.lua, of the topic's own queue, which holds scheduled messages
-- KEYS[17] seen    zset  ids within the duplicate window by first acceptance (ms)
-- KEYS[18] moved   zset  keys of moves by first acceptance (ms)
-- KEYS[19] bodies  hash  as in shared_bodies.lua
-- KEYS[20] refs    hash  as in shared_bodies.lua
-- KEYS[21..] of each target: stream, head, bell and shares, as in state.lua and shared_bodies.lua;
--            then, depending on its kind, expiry; sessionNames, available, freeSessions, holders,
--            waiting, paused as in sessions.lua, and locks; and, if the topic has a history, events as in history.lua
-- ARGV[1..4] as in state.lua
-- ARGV[5]    window   length of the duplicate window in ms, 0: none
-- ARGV[6]    keyLife  how long keys of moves are kept, ms
-- ARGV[7]    targets  how many; their kinds follow: strings of the letters e (expiry), s (sessions),
--                    d (dead letters) and q (quiet: a lock call follows, which rings the doorbell)
-- ARGV[8]    records  how many; they follow the kinds
-- ARGV[9..]  kinds, records, then for each group version and number of publications, and for each
--            of these: id for duplicate detection or '', key of its move or '', due ms or '' (with
--            an r behind it as in append.lua), ttl ms or '', source: member of locks or '', body
--            that the copies share or '', record of a scheduled message, 0, or -1 if only id and
--            key are noted (with a history, a record with the message's id instead of 0), number of
--            copies, and for each of these: target, record, ttl ms or '', name of the session or ''
-- Returns {'ok', then for each group {n...}, 0 for a dropped duplicate, -1 for a noted message, or
--         its refusal: conflict | lock_lost} | {'not_found'} | {'more'}: call again
local seen, moved, bodies, refs = KEYS[taken + 1], KEYS[taken + 2], KEYS[taken + 3], KEYS[taken + 4]
if call('EXISTS', stream) == 0 then return {'not_found'} end
if not sweep() then
  wake()
  return {'more'}
end

local window, keyLife, targets, records = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local first, at, firstRecord = {}, taken + 5, 8 + targets
for i = 1, targets do
  first[i] = at
  local kind = ARGV[8 + i]
  at = at + 4 + (string.find(kind, 'e', 1, true) and 1 or 0) + (string.find(kind, 's', 1, true) and 7 or 0) + (history and 1 or 0)
end

-- isKnown reports whether an id or a key was seen within life, and otherwise notes it.
local cleared = {}
local function isKnown(key, id, life)
  if id == '' or life <= 0 then return false end
  if not cleared[key] then
    cleared[key] = true
    many('ZREM', key, call('ZRANGEBYSCORE', key, '-inf', format('%.0f', now - life), 'LIMIT', 0, 1000 + #ARGV))
  end
  local since = call('ZSCORE', key, id)
  if since and tonumber(since) + life > now then return true end
  call('ZADD', key, ARGV[1], id)
  return false
end

local state = call('HMGET', head, 's', 'v')
local last, version, given = tonumber(state[1] or 0), tonumber(state[2] or 0), false
local touched, order, arrived, soonest = {}, {}, {}, {} -- by target: last number, messages in sessions, first expiry

-- copy stores one copy. It returns the kind of its target, or nil if the target no longer exists.
local function copy(n, from, body)
  local target, record, ttl, sid = tonumber(ARGV[from]), ARGV[firstRecord + ARGV[from + 1]], ARGV[from + 2], ARGV[from + 3]
  local base = first[target]
  local entry = call('XADD', KEYS[base], 'NOMKSTREAM', '0-*', 'd', record, 'o', n)
  if not entry then return nil end
  local m = sub(entry, 3)
  local kind = ARGV[8 + target]
  if history then
    history.add('a', m, {key = KEYS[(first[target + 1] or at) - 1], sub = string.find(kind, 'd', 1, true) and 1 or 0, other = n, record = record})
  end
  if not touched[target] then order[#order + 1] = target end
  touched[target] = m
  if body ~= '' then call('HSET', KEYS[base + 3], m, n) end
  if ttl ~= '' then
    local at = now + tonumber(ttl)
    call('ZADD', KEYS[base + 4], format('%.0f', at), pad(m))
    soonest[target] = math.min(soonest[target] or at, at)
  end
  if sid ~= '' then
    local a = arrived[target] or {numbers = {}, sids = {}, pairs = {}}
    arrived[target] = a
    a.numbers[#a.numbers + 1], a.sids[#a.sids + 1] = m, sid
    a.pairs[#a.pairs + 1] = m
    a.pairs[#a.pairs + 1] = sid
  end
  return kind
end

-- publish stores the publication whose arguments begin at p, and returns its number.
local function publish(p)
  local id, key, due, ttl, source, body = ARGV[p], ARGV[p + 1], ARGV[p + 2], ARGV[p + 3], ARGV[p + 4], ARGV[p + 5]
  local n
  if source ~= '' then
    n = number(source)
    unlock({source})
    if history then history.add('p', n) end
    act('remove', n)
  else
    local record = ARGV[firstRecord + ARGV[p + 6]]
    if isKnown(moved, key, keyLife) then return 0 end
    if isKnown(seen, id, window) then
      if history and ARGV[p + 6] ~= '-1' then history.add('d', 0, {record = record}) end
      return 0
    end
    if ARGV[p + 6] == '-1' then return -1 end
    last, given = last + 1, true
    n = format('%d', last)
    if history and sub(due, -1) ~= 'r' then
      history.add(due == '' and 'a' or 's', n, {['until'] = due ~= '' and due or 0, record = record})
    end
  end
  if due ~= '' then
    local record = ARGV[firstRecord + ARGV[p + 6]]
    if ttl == '' then
      call('XADD', stream, '0-' .. n, 'd', record)
    else
      call('XADD', stream, '0-' .. n, 'd', record, 't', ttl)
    end
    local reserved = sub(due, -1) == 'r'
    local when = reserved and sub(due, 1, -2) or due
    call('ZADD', scheduled, when, pad(n) .. (reserved and 'r' or ''))
    noteDeadline(when)
    ready = true -- a waiting forwarder must learn the new due time
    return tonumber(n)
  end
  local living, deadLetters = 0, 0
  for i = 0, tonumber(ARGV[p + 7]) - 1 do
    local kind = copy(n, p + 8 + 4 * i, body)
    if kind and string.find(kind, 'd', 1, true) then
      deadLetters = deadLetters + 1
    elseif kind then
      living = living + 1
    end
  end
  if body ~= '' and living + deadLetters > 0 then
    call('HSET', bodies, n, body)
    if deadLetters > 0 then call('HSET', refs, 'd' .. n, deadLetters) end
    if living > 0 then call('HSET', refs, n, living) end
  end
  return tonumber(n)
end

local reply, g = {'ok'}, firstRecord + records + 1
while g <= #ARGV do
  -- A group is checked before anything of it is stored.
  local refusal, starts, sources, p = tonumber(ARGV[g]) < version and 'conflict', {}, {}, g + 2
  for i = 1, tonumber(ARGV[g + 1]) do
    local source = ARGV[p + 4]
    if source ~= '' and (sources[source] or not areLocked({source})[1]) then refusal = refusal or 'lock_lost' end
    sources[source], starts[i] = true, p
    p = p + 8 + 4 * ARGV[p + 7]
  end
  if refusal then
    reply[#reply + 1] = refusal
  else
    local numbers = {}
    for i, start in ipairs(starts) do numbers[i] = publish(start) end
    reply[#reply + 1] = numbers
  end
  g = p
end

if given then
  local n = format('%d', last)
  call('HSET', head, 's', n, 'c', n, 'v', format('%d', version))
end
for _, target in ipairs(order) do
  local base, a = first[target], arrived[target]
  local theirHead, theirBell, rings = KEYS[base + 1], KEYS[base + 2], not string.find(ARGV[8 + target], 'q', 1, true)
  if a then
    local k = base + 4
    if string.find(ARGV[8 + target], 'e', 1, true) then k = k + 1 end
    many('HSET', KEYS[k], a.pairs)
    call('HSET', theirHead, 's', touched[target], 'c', touched[target])
    rings = addAvailable({
      available = KEYS[k + 1], freeSessions = KEYS[k + 2], holders = KEYS[k + 3], waiting = KEYS[k + 4], paused = KEYS[k + 5],
      locks = KEYS[k + 6], bell = theirBell,
    }, a.numbers, a.sids)
  else
    call('HSET', theirHead, 's', touched[target])
  end
  local d = soonest[target] and call('HGET', theirHead, 'd')
  if d and tonumber(d) > soonest[target] then call('HSET', theirHead, 'd', format('%.0f', soonest[target])) end
  if rings and call('HDEL', theirHead, 'w') == 1 then call('SPUBLISH', theirBell, '') end
end
wake()
return reply
