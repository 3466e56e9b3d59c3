#!lua flags=allow-oom
-- settle.lua: end locks, each at most once.
-- KEYS[1..15] as in state.lua
-- ARGV[1..4] as in state.lua
-- ARGV[5..]  for each lock: outcome complete | abandon | defer | dead-letter | release | unknown,
--            or delay <ms> <factor> <ms> (abandon with a delay: the first one, and the longest);
--            entry id 0-<n>; member of locks; overrides '' or a length-prefixed map of properties.
--            Items of another kind are within (session, proof of its lock, ''): the locks that
--            follow belong to it, and without ('', '', ''): they belong to none
-- Returns {'ok', then index and code of each refused lock: lock_lost | session_lock_lost, if that
--         of within is | not_allowed | invalid_argument; or again, if this call had no time left
--         for it} | {'more'}: call again
if not sweep() then
  wake()
  return {'more'}
end

local members = {}
for i = 7, #ARGV, 4 do members[#members + 1] = ARGV[i] end
local deadlines = ask('ZMSCORE', locks, members)

local reply, taken, ended, ids, adrift = {'ok'}, {}, {}, {}, false
for i, member in ipairs(members) do
  local outcome, id, text = ARGV[4 * i + 1], ARGV[4 * i + 2], ARGV[4 * i + 4]
  if outcome == 'within' then
    adrift = not holds(id, member)
  elseif outcome == 'without' then
    adrift = false
  elseif adrift then
    reply[#reply + 1] = i
    reply[#reply + 1] = 'session_lock_lost'
  elseif not deadlines[i] or taken[member] then
    reply[#reply + 1] = i
    reply[#reply + 1] = 'lock_lost'
  elseif outcome == 'dead-letter' and not countsDeliveries then
    reply[#reply + 1] = i
    reply[#reply + 1] = 'not_allowed'
  elseif outcome == 'unknown' then
    reply[#reply + 1] = i
    reply[#reply + 1] = 'invalid_argument'
  elseif outcome == 'complete' then
    taken[member] = true
    ended[#ended + 1] = member
    ids[#ids + 1] = id
    if history then history.add('c', sub(id, 3)) end
  elseif budget <= 0 then -- bodies have been moved
    taken[member] = true
    reply[#reply + 1] = i
    reply[#reply + 1] = 'again'
  else
    taken[member] = true
    call('ZREM', locks, member)
    local n = sub(id, 3)
    if text ~= '' then call('HSET', overrides, n, (call('HGET', overrides, n) or '') .. text) end
    if outcome == 'abandon' then
      act('fail', n, 'a')
    elseif outcome == 'release' then
      if history then history.add('u', n) end
      act('release', n)
    elseif outcome == 'defer' then
      local failures = countsDeliveries and call('HINCRBY', counts, n, 1)
      if history then history.add('f', n, {failures = failures}) end
      call('ZADD', deferred, 0, n)
      if session then session.defer(n) end
    elseif outcome == 'dead-letter' then
      act('deadLetter', n)
    else
      act('delay', n, outcome)
    end
  end
end

-- Completed messages are removed together, with the same few commands for any number of them.
if #ids > 0 then
  many('ZREM', locks, ended)
  many('XDEL', stream, ids)
  local others = call('EXISTS', counts, overrides, deferred, expiry, overdue) > 0
  if others or shared or session then
    local numbers, padded = {}, {}
    for i, id in ipairs(ids) do
      numbers[i], padded[i] = sub(id, 3), sub(ended[i], 1, 15)
    end
    if shared then shared.complete(numbers) end
    if session then session.complete(numbers) end
    if others then
      many('HDEL', counts, numbers)
      many('HDEL', overrides, numbers)
      many('ZREM', deferred, numbers)
      many('ZREM', expiry, padded)
      many('SREM', overdue, numbers)
    end
  end
end
wake()
return reply
