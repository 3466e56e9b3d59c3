-- sessions.lua: where messages belong to sessions; the loader puts it behind
-- state.lua and session_arrivals.lua for queues with sessions, and where those may have
-- them whose dead letters are asked for. A message is under lock if it is in
-- locks, there without a deadline and with the nonce of its session's lock.
-- Sessions are known by their keys; session_arrivals.lua says what their names are.
-- The next KEYS:
--   of       hash  n -> name of the session, for all messages that belong to one
--   waits    zset  <session>\0<n, 15 digits> of available messages, all with score 0
--   open     zset  sessions that nobody holds by the number of their first available message
--   slocks   zset  sessions that somebody holds by deadline (ms)
--   holders  hash  session -> proof of its lock: the 8-byte nonce, and of a non-exclusive one how often it was taken over
--   held     zset  like waits, of messages under lock
--   aside    zset  like waits, of deferred messages that are not locked
--   waiting  set   sessions whose holder waits for messages
local of, waits, open, slocks, holders, held, aside, waiting = unpack(KEYS, taken + 1, taken + 8)
taken = taken + 8
local arrivals = {waits = waits, open = open, holders = holders, waiting = waiting, bell = bell}

-- sessionOf returns the session of message n, false if it has none.
local function sessionOf(n)
  local name = call('HGET', of, n)
  return name and keyOf(name)
end

local function place(sid, n) return sid .. '\0' .. pad(n) end

-- placed returns up to max members of a session in waits, held or aside.
local function placed(key, sid, max)
  return call('ZRANGEBYLEX', key, '[' .. sid .. '\0', '(' .. sid .. '\1', 'LIMIT', 0, max)
end

-- position reads the n of a member of waits, held or aside.
local function position(member) return format('%d', tonumber(sub(member, -15))) end

-- reopen lets a session that nobody holds be accepted, if it has messages.
local function reopen(sid)
  local first = placed(waits, sid, 1)[1]
  if first then
    call('ZADD', open, position(first), sid)
    ready = true
  else
    call('ZREM', open, sid)
  end
end

-- unhold ends the lock of a session under which nothing is locked any more.
local function unhold(sid)
  call('HDEL', holders, sid)
  call('ZREM', slocks, sid)
  call('SREM', waiting, sid)
  reopen(sid)
end

-- unlock ends the locks of messages held in sessions and does to each message
-- what is said. It returns false if the budget ended before the work.
local function unlock(members, what)
  for _, member in ipairs(members) do
    if budget <= 0 then return false end
    budget = budget - 1
    local n, proof = position(member), call('HGET', holders, sub(member, 1, -17))
    call('ZREM', locks, pad(n) .. sub(proof, 1, 8))
    call('ZREM', held, member)
    if history and what == 'free' then history.add('u', n) end
    act(what, n, member)
  end
  return true
end

session = {
  locks = slocks,

  -- count returns how many are held, and how many wait to be.
  count = function() return {call('ZCARD', slocks), call('ZCARD', open)} end,

  -- waits says whether message n is available, nil if it is in no session.
  waits = function(n)
    local sid = sessionOf(n)
    if not sid then return nil end
    return call('ZSCORE', waits, place(sid, n)) and 'yes' or 'no'
  end,

  -- forget removes message n from its session.
  forget = function(n)
    local sid = sessionOf(n)
    if not sid then return end
    local member = place(sid, n)
    call('HDEL', of, n)
    call('ZREM', held, member)
    call('ZREM', aside, member)
    if call('ZREM', waits, member) == 1 and call('HEXISTS', holders, sid) == 0 then reopen(sid) end
  end,

  -- complete is forget for many under lock.
  complete = function(numbers)
    local members = {}
    for i, name in ipairs(ask('HMGET', of, numbers)) do
      if name then members[#members + 1] = place(keyOf(name), numbers[i]) end
    end
    many('HDEL', of, numbers)
    many('ZREM', held, members)
  end,

  -- defer sets message n aside.
  defer = function(n)
    local sid = sessionOf(n)
    if not sid then return end
    call('ZREM', held, place(sid, n))
    call('ZADD', aside, 0, place(sid, n))
  end,

  -- hold keeps message n, which was set aside or waited, for the holder of its session.
  hold = function(n, sid)
    call('ZREM', aside, place(sid, n))
    call('ZADD', held, 0, place(sid, n))
  end,

  -- free makes message n available again in its session; false if it has none.
  free = function(n)
    local sid = sessionOf(n)
    if not sid then return false end
    call('ZREM', held, place(sid, n))
    if arrive(arrivals, {n}, {sid}) then ready = true end
    return true
  end,

  -- join brings new messages into their sessions.
  join = function(numbers, names)
    local sessions = {}
    for i, n in ipairs(numbers) do
      sessions[#sessions + 1] = n
      sessions[#sessions + 1] = names[i]
    end
    many('HSET', of, sessions)
    if arrive(arrivals, numbers, names) then ready = true end
  end,

  -- note keeps the session of a scheduled message; who waits there must learn when to ask again.
  note = function(n, name)
    local sid = keyOf(name)
    call('HSET', of, n, name)
    if call('SREM', waiting, sid) == 1 then call('SPUBLISH', bell, sid) end
  end,

  -- rename makes scheduled message n available under a new number; false if it has no session.
  rename = function(n, fresh)
    local name = call('HGET', of, n)
    if not name then return false end
    call('HDEL', of, n)
    call('HSET', of, fresh, name)
    call('HSET', head, 'c', fresh)
    if arrive(arrivals, {fresh}, {name}) then ready = true end
    return true
  end,

  -- sweep ends the locks of sessions that have expired: those of one instant
  -- together, their messages by number. It returns false if the budget ended
  -- before the work.
  sweep = function()
    while true do
      local first = call('ZRANGE', slocks, 0, 0, 'WITHSCORES')
      if #first == 0 or tonumber(first[2]) > now then return true end
      local sids, members = call('ZRANGEBYSCORE', slocks, first[2], first[2]), {}
      for _, sid in ipairs(sids) do
        for _, member in ipairs(placed(held, sid, -1)) do members[#members + 1] = member end
      end
      if #sids > 1 then table.sort(members, function(a, b) return sub(a, -15) < sub(b, -15) end) end
      if not unlock(members, 'fail') then return false end
      for _, sid in ipairs(sids) do unhold(sid) end
      budget = budget - #sids
      if budget <= 0 then return false end
    end
  end,
}

-- holds reports whether the proof is that of the last holder of a session.
local function holds(sid, proof) return call('HGET', holders, sid) == proof end

-- keep sets the state of the session of a name, given 0: that it has none. The keys are those of session_state_set.lua.
local function keep(states, changed, stateful, name, given, state)
  local sid = keyOf(name)
  if given == '1' then
    call('HSET', states, sid, state)
    call('HSET', changed, sid, ARGV[1] .. sub(name, #sid + 1))
    call('ZADD', stateful, 0, sid)
  else
    call('HDEL', states, sid)
    call('HDEL', changed, sid)
    call('ZREM', stateful, sid)
  end
end
