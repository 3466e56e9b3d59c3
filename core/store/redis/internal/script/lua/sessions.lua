-- sessions.lua: functions for messages in sessions. The loader puts it after state.lua and session_arrivals.lua
-- for queues with sessions. It also does so for requests of dead letters if their queue may have
-- sessions. A locked message is in locks, with the nonce of its session's lock and a score later than any
-- deadline: +inf, or the score of the lock call.
-- Sessions are identified by their keys; session_arrivals.lua defines their names.
-- The next KEYS:
--   sessionNames  hash  n -> name of the session, for all messages that belong to one
--   available     zset  <session>\0<n, 15 digits> of available messages, all with score 0
--   freeSessions  zset  sessions that are not locked and have available messages, by their turns:
--                       a session that begins to wait gets the last turn plus 1. Turns that an
--                       earlier version has written are the numbers of the first available messages
--   sessionLocks  zset  locked sessions by the clients' deadline (ms); the lock ends grace later
--   holders       hash  session -> proof of its lock: the 8-byte nonce, and for a non-exclusive
--                       lock how often it was taken over
--   held          zset  like available, of locked messages
--   idleDeferred  zset  like available, of deferred messages that are not locked
--   waiting       set   sessions whose holder waits for messages
--   paused        zset  like available, of messages that are delayed and were not deferred: they
--                       pause their sessions. An earlier version that shares the store may have
--                       left some that are delayed no more
local sessionNames, available, freeSessions, sessionLocks, holders, held, idleDeferred, waiting, paused = unpack(KEYS, taken + 1, taken + 9)
taken = taken + 9
local grace = 300 -- core.SessionGrace, ms
local arrivals = {
  available = available, freeSessions = freeSessions, holders = holders, waiting = waiting, paused = paused, locks = locks, bell = bell,
}

-- sessionOf returns the session of message n, or false.
local function sessionOf(n)
  local name = call('HGET', sessionNames, n)
  return name and keyOf(name)
end

local function sessionMember(sid, n) return sid .. '\0' .. pad(n) end

local function sessionMembers(key, sid, max)
  return call('ZRANGEBYLEX', key, '[' .. sid .. '\0', '(' .. sid .. '\1', 'LIMIT', 0, max)
end

local function sessionNumber(member) return format('%d', tonumber(sub(member, -15))) end

-- offerSession makes a free session acceptable if it has messages and is not paused.
local function offerSession(sid)
  if sessionMembers(available, sid, 1)[1] and not isPaused(arrivals, sid) then
    queueUp(freeSessions, {sid})
    ready = true
  else
    call('ZREM', freeSessions, sid)
  end
end

-- The session must have no locked messages.
local function endSessionLock(sid)
  call('HDEL', holders, sid)
  call('ZREM', sessionLocks, sid)
  call('SREM', waiting, sid)
  offerSession(sid)
end

-- endLocks ends the locks of messages in sessions and applies an action to each message. It returns
-- false if the budget is used up first.
local function endLocks(members, what)
  for _, member in ipairs(members) do
    if budget <= 0 then return false end
    budget = budget - 1
    local n, proof = sessionNumber(member), call('HGET', holders, sub(member, 1, -17))
    call('ZREM', locks, pad(n) .. sub(proof, 1, 8))
    call('ZREM', held, member)
    if history and what == 'release' then history.add('u', n) end
    act(what, n, member)
  end
  return true
end

session = {
  -- nextEnd returns when the next lock of a session ends, or nil.
  nextEnd = function()
    local first = call('ZRANGE', sessionLocks, 0, 0, 'WITHSCORES')[2]
    return first and tonumber(first) + grace
  end,

  count = function() return {call('ZCARD', sessionLocks), call('ZCARD', freeSessions)} end,

  -- isAvailable returns 'yes' or 'no', or nil if message n has no session.
  isAvailable = function(n)
    local sid = sessionOf(n)
    if not sid then return nil end
    return call('ZSCORE', available, sessionMember(sid, n)) and 'yes' or 'no'
  end,

  remove = function(n)
    local sid = sessionOf(n)
    if not sid then return end
    local member = sessionMember(sid, n)
    call('HDEL', sessionNames, n)
    call('ZREM', held, member)
    call('ZREM', idleDeferred, member)
    local pausing = call('ZREM', paused, member) == 1
    if (call('ZREM', available, member) == 1 or pausing) and call('HEXISTS', holders, sid) == 0 then offerSession(sid) end
    if pausing then wakeHolder(arrivals, sid) end
  end,

  -- complete is remove for many locked messages.
  complete = function(numbers)
    local members = {}
    for i, name in ipairs(ask('HMGET', sessionNames, numbers)) do
      if name then members[#members + 1] = sessionMember(keyOf(name), numbers[i]) end
    end
    many('HDEL', sessionNames, numbers)
    many('ZREM', held, members)
  end,

  defer = function(n)
    local sid = sessionOf(n)
    if not sid then return end
    call('ZREM', held, sessionMember(sid, n))
    call('ZADD', idleDeferred, 0, sessionMember(sid, n))
  end,

  -- delay adds the delayed message n to paused, or to idleDeferred if n was deferred. The holder
  -- must learn when the delay ends.
  delay = function(n)
    local sid = sessionOf(n)
    if not sid then return end
    call('ZREM', held, sessionMember(sid, n))
    call('ZADD', call('ZSCORE', deferred, n) and idleDeferred or paused, 0, sessionMember(sid, n))
    wakeHolder(arrivals, sid)
  end,

  -- lock adds message n, which was deferred or available, to held.
  lock = function(n, sid)
    call('ZREM', idleDeferred, sessionMember(sid, n))
    call('ZADD', held, 0, sessionMember(sid, n))
  end,

  -- release returns false if message n has no session.
  release = function(n)
    local sid = sessionOf(n)
    if not sid then return false end
    call('ZREM', held, sessionMember(sid, n))
    call('ZREM', paused, sessionMember(sid, n))
    if addAvailable(arrivals, {n}, {sid}) then ready = true end
    return true
  end,

  add = function(numbers, names)
    local sessions = {}
    for i, n in ipairs(numbers) do
      sessions[#sessions + 1] = n
      sessions[#sessions + 1] = names[i]
    end
    many('HSET', sessionNames, sessions)
    if addAvailable(arrivals, numbers, names) then ready = true end
  end,

  -- noteScheduled notes the session of a scheduled message. A waiting receiver must learn the new
  -- due time.
  noteScheduled = function(n, name)
    call('HSET', sessionNames, n, name)
    wakeHolder(arrivals, keyOf(name))
  end,

  -- rename makes scheduled message n available as fresh. It returns false if n has no session.
  rename = function(n, fresh)
    local name = call('HGET', sessionNames, n)
    if not name then return false end
    call('HDEL', sessionNames, n)
    call('HSET', sessionNames, fresh, name)
    call('HSET', head, 'c', fresh)
    if addAvailable(arrivals, {fresh}, {name}) then ready = true end
    return true
  end,

  -- sweep ends the expired locks of sessions: all with the same deadline together, and the locks of
  -- their messages ordered by number. It returns false if the budget is used up first.
  sweep = function()
    while true do
      local first = call('ZRANGE', sessionLocks, 0, 0, 'WITHSCORES')
      if #first == 0 or tonumber(first[2]) + grace > now then return true end
      local sids, members = call('ZRANGEBYSCORE', sessionLocks, first[2], first[2]), {}
      for _, sid in ipairs(sids) do
        for _, member in ipairs(sessionMembers(held, sid, -1)) do members[#members + 1] = member end
      end
      if #sids > 1 then table.sort(members, function(a, b) return sub(a, -15) < sub(b, -15) end) end
      if not endLocks(members, 'fail') then return false end
      for _, sid in ipairs(sids) do endSessionLock(sid) end
      budget = budget - #sids
      if budget <= 0 then return false end
    end
  end,
}

local function holds(sid, proof) return call('HGET', holders, sid) == proof end

-- isLarger reports whether the state is larger than the session's present one.
local function isLarger(states, name, given, state)
  return given == '1' and #state > call('HSTRLEN', states, keyOf(name))
end

-- setState removes the state if given is 0. The keys are those of session_state_set.lua.
local function setState(states, changed, stateful, name, given, state)
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
