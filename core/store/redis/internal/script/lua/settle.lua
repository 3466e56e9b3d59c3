#!lua flags=allow-oom
-- settle.lua: settle locked messages, each at most once. settle_plain.lua completes messages with other arguments.
-- KEYS[1..16] as in state.lua
-- ARGV[1..4] as in state.lua
-- ARGV[5..]  for each run of locks with the same outcome: outcome complete | abandon | defer |
--            dead-letter | release | unknown, or delay abandon|release <ms> <factor> <ms> (with a
--            delay: the first one, and the longest). Then overrides '' or a length-prefixed map of properties.
--            Then how many locks, at most 1000, and the member of locks of each.
--            There are three other kinds of runs: the locks after within (proof of a session's lock,
--            1, session) belong to that session, and those after without ('', 0) belong to
--            none. full ('', 0) comes first if the partition has no room for more properties
-- Returns {'ok', then index (from 1, among the locks) and code of each refused lock: lock_lost |
--         session_lock_lost, if that of within is | not_allowed | invalid_argument | too_large |
--         quota_exceeded; or again, if this call had no time left for it and what follows} |
--         {'more'}: call again
if not sweep() then
  wake()
  return {'more'}
end

local reply, ids, completed, ended, adrift, full = {'ok'}, {}, {}, {}, false, false
local index = 0 -- number of locks before the current run
local function refuse(i, code)
  reply[#reply + 1] = index + i
  reply[#reply + 1] = code
end

-- endLock ends lock i of a run with an outcome other than complete.
local function endLock(i, member, outcome, text)
  if outcome == 'dead-letter' and not countsDeliveries then return refuse(i, 'not_allowed') end
  if outcome == 'unknown' then return refuse(i, 'invalid_argument') end
  local n = number(member)
  local set, code = changed(n, outcome, text, full)
  if not set then return refuse(i, code) end
  unlock({member})
  ended[member] = true
  if text ~= '' then call('HSET', overrides, n, set) end
  if outcome == 'abandon' then
    act('fail', n, 'a')
  elseif outcome == 'release' then
    if history then history.add('u', n) end
    act('release', n)
  elseif outcome == 'defer' then
    call('ZADD', deferred, 0, n)
    act('fail', n, 'f')
  elseif outcome == 'dead-letter' then
    act('deadLetter', n)
  else
    act('delay', n, outcome)
  end
end

local at = 5
while at < #ARGV do
  local outcome, text, count = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local first, last = at + 3, at + 2 + count
  if outcome == 'within' then
    adrift = not holds(ARGV[first], text)
  elseif outcome == 'without' then
    adrift = false
  elseif outcome == 'full' then
    full = true
  else
    local standing = adrift and {} or areLocked({unpack(ARGV, first, last)})
    for i = 1, count do
      local member = ARGV[first + i - 1]
      if not standing[i] or ended[member] then
        refuse(i, adrift and 'session_lock_lost' or 'lock_lost')
      elseif budget <= 0 then -- moving bodies has used up the budget
        refuse(i, 'again')
      elseif outcome == 'complete' then
        ended[member] = true
        completed[#completed + 1] = member
        ids[#ids + 1] = '0-' .. number(member)
        if history then history.add('c', number(member)) end
      else
        endLock(i, member, outcome, text)
      end
    end
    index = index + count
  end
  at = last + 1
end

-- All completed messages are removed with the same few commands.
if #ids > 0 then
  unlock(completed)
  many('XDEL', stream, ids)
  local others = call('EXISTS', counts, overrides, deferred, expiry, overdue) > 0
  if others or shared or session then
    local numbers, padded = {}, {}
    for i, id in ipairs(ids) do
      numbers[i], padded[i] = sub(id, 3), sub(completed[i], 1, 15)
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
