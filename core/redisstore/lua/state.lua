-- state.lua: what every script of a partition shares; the loader puts it in
-- front of each of them, behind their #!lua line. It names the keys, knows how
-- a lock ends, and sweeps. For the queues of subscriptions shared_bodies.lua stands
-- behind it, where messages belong to sessions sessions.lua, and where what
-- happens to them is remembered history.lua.
-- KEYS[1]  stream     stream  the messages, id 0-<n>; field d is the record. Optional fields: t time to live (ms),
--                             e enqueued time (ms) where it is not the record's, o the number under which it came first
--                             (that of a topic's publication, else of a dead letter in its queue; the first o counts),
--                             and in a dead-letter queue c delivery count, p overrides, r reason (m or x). Entries that
--                             are returned may have b, a shared body
-- KEYS[2]  head       hash    s last number given, c last number claimed (cursor), w set while somebody waits, a once the
--                             holder of a session has; of a topic v the version of its subscriptions, and there c is s:
--                             what becomes due goes to again; d the earliest time (ms) at which a sweep may find
--                             something: each script that adds a deadline lowers it, a sweep sets it anew; without
--                             d the next script sweeps
-- KEYS[3]  locks      zset    <n, 15 digits><8-byte nonce> by deadline (ms); without a nonce where nobody holds the lock:
--                             the message waits after a failed delivery
-- KEYS[4]  again      zset    numbers to deliver once more, by number
-- KEYS[5]  counts     hash    n -> failed deliveries and deferrals, where there were any
-- KEYS[6]  overrides  hash    n -> properties that settlements set: length-prefixed maps, oldest first
-- KEYS[7]  deferred   zset    numbers of deferred messages by lock deadline, 0 while not locked
-- KEYS[8]  scheduled  zset    <n, 15 digits> by due time (ms); with an r behind them, one that is reserved for a transaction by
--                             the end of that
-- KEYS[9]  holes      zset    numbers behind the cursor that are not to be delivered, by number
-- KEYS[10] expiry     zset    <n, 15 digits> by expiry (ms)
-- KEYS[11] late       set     numbers of messages that expired while locked or deferred
-- KEYS[12] bell       channel sharded doorbell of the partition
-- KEYS[13] dead       stream  the dead-letter queue's messages
-- KEYS[14] deadHead   hash    the dead-letter queue's head
-- KEYS[15] deadBell   channel the dead-letter queue's doorbell
-- ARGV[1]  now            ms, from the caller's clock
-- ARGV[2]  sub            0: a queue itself, 2: its transfer queue (nothing expires), 1 and 3: the dead letters of
--                         these (nor do counts rise)
-- ARGV[3]  maxDeliveries  failed deliveries after which a message is dead-lettered, 0: never
-- ARGV[4]  expired        drop | dead-letter; what else it says is for history.lua
local stream, head, locks, again, counts, overrides, deferred = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local scheduled, holes, expiry, late, bell = KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local dead, deadHead, deadBell = KEYS[13], KEYS[14], KEYS[15]
local now, mortal, counting = tonumber(ARGV[1]), ARGV[2] == '0', ARGV[2] == '0' or ARGV[2] == '2'
local maxDeliveries, dropExpired = tonumber(ARGV[3]), string.sub(ARGV[4], 1, 4) == 'drop'
local call, format, sub = redis.call, string.format, string.sub

local taken = 15 -- how many keys have a name
local shared, session, history -- what shared_bodies.lua, sessions.lua and history.lua do, where they are there

local ready, buried = false, false -- something became available here, in the dead-letter queue
local budget = 500 -- how much one call may sweep; moving a body costs more

-- many calls a variadic command with its items in digestible portions.
local function many(command, key, items)
  for i = 1, #items, 1000 do
    call(command, key, unpack(items, i, math.min(i + 999, #items)))
  end
end

-- ask is many for commands that answer one value per item.
local function ask(command, key, items)
  local all = {}
  for i = 1, #items, 1000 do
    local part = call(command, key, unpack(items, i, math.min(i + 999, #items)))
    for j = 1, #part do all[i + j - 1] = part[j] end
  end
  return all
end

local function pad(n) return format('%015d', n) end

-- number reads the n of a member of locks, scheduled or expiry.
local function number(member) return format('%d', tonumber(sub(member, 1, 15))) end

-- due is d of head, the time before which a sweep finds nothing; sweep reads it.
local due = 0

-- expect lowers d to the earliest of the deadlines that a script has added.
local function expect(at)
  at = tonumber(at)
  if at >= due then return end
  due = at
  call('HSET', head, 'd', format('%.0f', at))
end

-- acts are what may become of a message when its time comes or its lock ends.
-- They are made when the first is needed: mostly none is, and making them costs
-- as much as several commands.
local acts
local function makeActs()
  -- erase removes message n and all that is kept about it, but for its lock.
  local function erase(n)
    call('XDEL', stream, '0-' .. n)
    call('HDEL', counts, n)
    call('HDEL', overrides, n)
    call('ZREM', deferred, n)
    call('ZREM', expiry, pad(n))
    call('SREM', late, n)
    if shared then shared.drop(n) end
    if session then session.forget(n) end
  end

  -- bury moves message n to the dead-letter queue; reason is m (too many
  -- deliveries), x (expired) or nil (the receiver has given one).
  local function bury(n, reason)
    local entry = call('XRANGE', stream, '0-' .. n, '0-' .. n)[1]
    if entry then
      local fields, record = entry[2], entry[2][2]
      local function add(name, value)
        if value then
          fields[#fields + 1] = name
          fields[#fields + 1] = value
        end
      end
      add('o', n)
      add('c', call('HGET', counts, n))
      add('p', call('HGET', overrides, n))
      add('r', reason)
      local id = call('XADD', dead, 'NOMKSTREAM', '0-*', unpack(fields))
      if id then
        call('HINCRBY', deadHead, 's', 1)
        if shared then shared.move(n, sub(id, 3)) end
        if history then history.add('m', n, {other = sub(id, 3), reason = reason, record = record}) end
        buried = true
      end
      budget = budget - #fields[2] / 4096
    end
    erase(n)
  end

  -- expire ends message n, whose time to live is over.
  local function expire(n)
    if not dropExpired then return bury(n, 'x') end
    if history then history.add('x', n) end
    erase(n)
  end

  -- isLate reports whether message n, locked or deferred until now, has expired.
  local function isLate(n)
    if not mortal then return false end
    if call('SISMEMBER', late, n) == 1 then return true end
    local at = call('ZSCORE', expiry, pad(n))
    return at and tonumber(at) <= now
  end

  -- free gives message n back after its lock; a deferred one stays deferred.
  local function free(n)
    if call('ZSCORE', deferred, n) then
      call('ZADD', deferred, 0, n)
      if session then session.defer(n) end
    elseif isLate(n) then
      expire(n)
    elseif not session or not session.free(n) then
      call('ZADD', again, n, n)
      ready = true
    end
  end

  -- fail is free after a failed delivery; how is a for one that was abandoned,
  -- else the member of locks that has expired.
  local function fail(n, how)
    local failures = counting and call('HINCRBY', counts, n, 1)
    if history then
      local kind = how == 'a' and 'b' or #how == 15 and 'w' or 'l'
      history.add(kind, n, {failures = failures})
    end
    if counting and maxDeliveries > 0 and failures >= maxDeliveries then
      bury(n, 'm')
    else
      free(n)
    end
  end

  -- postpone is fail, but later: wait is what settle.lua takes. Until then nobody holds the lock, and who waits for
  -- messages must learn when to look again. After the last delivery there is nothing to wait for.
  local function postpone(n, wait)
    local failures = tonumber(call('HGET', counts, n) or 0)
    if counting and maxDeliveries > 0 and failures + 1 >= maxDeliveries then return fail(n, 'a') end
    local first, factor, most = string.match(wait, '^wait (%S+) (%S+) (%S+)$')
    local deadline = format('%.0f', now + math.floor(math.min(first * factor ^ failures, tonumber(most))))
    call('ZADD', locks, deadline, pad(n))
    call('ZADD', deferred, 'XX', deadline, n)
    expect(deadline)
    if history then history.add('t', n, {['until'] = deadline}) end
    ready = true
  end

  -- activate appends a scheduled message anew, under a new number. One whose reservation ends is dropped.
  local function activate(n, member)
    if #member > 15 then return erase(n) end
    local entry = call('XRANGE', stream, '0-' .. n, '0-' .. n)[1]
    if not entry then return end
    local fields, ttl = entry[2], nil
    for i = 1, #fields, 2 do
      if fields[i] == 't' then ttl = tonumber(fields[i + 1]) end
    end
    fields[#fields + 1] = 'e'
    fields[#fields + 1] = ARGV[1]
    local fresh
    if call('HEXISTS', head, 'v') == 1 then
      fresh = format('%d', call('HINCRBY', head, 's', 1))
      call('HSET', head, 'c', fresh)
      call('XADD', stream, '0-' .. fresh, unpack(fields))
      call('ZADD', again, fresh, fresh)
    else
      fresh = sub(call('XADD', stream, '0-*', unpack(fields)), 3)
      call('HINCRBY', head, 's', 1)
    end
    call('XDEL', stream, '0-' .. n)
    if history then history.add('v', n, {other = fresh, record = fields[2]}) end
    if ttl and mortal then
      call('ZADD', expiry, format('%.0f', now + ttl), pad(fresh))
      expect(now + ttl)
    end
    budget = budget - #fields[2] / 4096
    if not session or not session.rename(n, fresh) then ready = true end
  end

  -- isAvailable reports whether lock.lua would deliver message n, which lives.
  local function isAvailable(n)
    local waits = session and session.waits(n)
    if waits then return waits == 'yes' end
    return tonumber(n) > tonumber(call('HGET', head, 'c') or 0) or call('ZSCORE', again, n)
  end

  -- lapse ends an expired message that is available, and notes one that is not.
  local function lapse(n)
    if not isAvailable(n) then
      call('SADD', late, n)
      return
    end
    if call('ZREM', again, n) == 0 and not (session and session.waits(n)) then call('ZADD', holes, n, n) end
    expire(n)
  end

  return {
    activate = activate, bury = bury, erase = erase, expire = expire, fail = fail, free = free,
    isAvailable = isAvailable, isLate = isLate, lapse = lapse, postpone = postpone,
  }
end

-- act does one of them to message n. Those that do not need it are not told how.
local function act(what, n, how)
  acts = acts or makeActs()
  return acts[what](n, how)
end

-- drain takes what is due from a zset in the order (time, n) and acts on it.
-- It returns false if the budget ended before the work.
local function drain(key, what)
  repeat
    local due = call('ZRANGEBYSCORE', key, '-inf', ARGV[1], 'LIMIT', 0, 100)
    for _, member in ipairs(due) do
      if budget <= 0 then return false end
      budget = budget - 1
      call('ZREM', key, member)
      act(what, number(member), member)
    end
  until #due < 100
  return true
end

-- never stands for a time that does not come.
local never = 9007199254740991

-- sweep does what is due: ends expired locks, activates schedules, ends expired
-- messages. It returns false if some is left: the caller then answers 'more'.
local function sweep()
  due = tonumber(call('HGET', head, 'd') or 0)
  if due > now then return true end
  local done = (not session or session.sweep()) and drain(locks, 'fail') and drain(scheduled, 'activate') and
    (not mortal or drain(expiry, 'lapse'))
  if not done then return false end
  due = never
  for _, key in ipairs({locks, scheduled, mortal and expiry or locks, session and session.locks or locks}) do
    local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
    due = math.min(due, tonumber(first or never)) -- a lock in a session has no deadline of its own
  end
  if call('EXISTS', stream) == 1 then call('HSET', head, 'd', format('%.0f', due)) end
  return true
end

-- nextDue is when a sweep will next find something, 0: nothing is known. Of
-- the messages that expire only those count that are available; emptied says
-- that there are none.
local function nextDue(emptied)
  if due == never then return 0 end
  local next = never
  for _, key in ipairs({locks, scheduled, session and session.locks or nil}) do
    local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
    next = math.min(next, tonumber(first[2] or next))
  end
  if not emptied then
    -- If none of the first hundred is available the last of them is still a time to look again.
    local first = call('ZRANGE', expiry, 0, 99, 'WITHSCORES')
    for i = 1, #first, 2 do
      if act('isAvailable', number(first[i])) or i == 199 then
        next = math.min(next, tonumber(first[i + 1]))
        break
      end
    end
  end
  return next < never and next or 0
end

-- ring wakes those who wait for what this call made available.
local function ring()
  if ready and call('HDEL', head, 'w') == 1 then call('SPUBLISH', bell, '') end
  if buried and call('HDEL', deadHead, 'w') == 1 then call('SPUBLISH', deadBell, '') end
end
