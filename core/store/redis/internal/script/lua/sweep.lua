-- sweep.lua: the function sweep, which ends expired locks, activates scheduled messages and removes
-- expired messages. All scripts on a partition begin by calling it. The loader puts this file after
-- state.lua.

-- due is the time before which sweep finds nothing. sweep reads it from the field d of head.
local due = 0

-- noteDeadline lowers d to a deadline that a script has added.
local function noteDeadline(at)
  at = tonumber(at)
  if at >= due then return end
  due = at
  call('HSET', head, 'd', format('%.0f', at))
end

-- blockOf returns the block to which a lock may belong, and the byte and the bit for the lock.
local function blockOf(member)
  local n = tonumber(sub(member, 1, 15))
  local at = n % 128
  return pad(n - at) .. sub(member, 16) .. '*', math.floor(at / 8) + 1, 2 ^ (at % 8)
end

-- bitsOf returns the bits of the block that contains a lock, or nil, and the position of the lock's
-- bit.
local function bitsOf(member)
  if #member ~= 23 then return nil end
  local block, byte, bit = blockOf(member)
  local bits = call('HGET', blocks, block)
  if bits and math.floor(string.byte(bits, byte) / bit) % 2 == 1 then return bits, block, byte, bit end
end

-- areLocked returns for each lock whether it exists.
local function areLocked(members)
  local found = ask('ZMSCORE', locks, members)
  if call('EXISTS', blocks) == 1 then
    for i, member in ipairs(members) do found[i] = found[i] or bitsOf(member) end
  end
  return found
end

-- The locks must exist.
local function unlock(members)
  many('ZREM', locks, members)
  if call('EXISTS', blocks) == 0 then return end
  for _, member in ipairs(members) do
    local bits, block, byte, bit = bitsOf(member)
    if bits then
      bits = sub(bits, 1, byte - 1) .. string.char(string.byte(bits, byte) - bit) .. sub(bits, byte + 1)
      if string.find(bits, '[^%z]') then
        call('HSET', blocks, block, bits)
      else
        call('HDEL', blocks, block)
        call('ZREM', locks, block)
      end
    end
  end
end

-- singles returns the single locks of a member of locks, which may be a block.
local function singles(member)
  if #member < 24 then return {member} end
  local all, bits, start = {}, call('HGET', blocks, member) or '', tonumber(sub(member, 1, 15))
  for byte = 1, #bits do
    local set = string.byte(bits, byte)
    for n = start + 8 * byte - 8, start + 8 * byte - 1 do
      if set % 2 == 1 then all[#all + 1] = pad(n) .. sub(member, 16, 23) end
      set = math.floor(set / 2)
    end
  end
  return all
end

-- actions are applied to messages that are due or whose locks end. They are created when the first
-- is needed: most calls need none, and creating them costs as much as several commands.
local actions
local function makeActions()
  -- The function copies these names of state.lua: each name that it uses from outside makes it more
  -- expensive to create, and most calls do not need it.
  local stream, head, locks, again, counts, overrides, deferred, scheduled, holes, expiry, overdue, _, dead, deadHead =
    unpack(KEYS, 1, 14)
  local call, format, sub, now = redis.call, string.format, string.sub, tonumber(ARGV[1])
  -- remove removes message n and all data about it except its lock.
  local function remove(n)
    call('XDEL', stream, '0-' .. n)
    call('HDEL', counts, n)
    call('HDEL', overrides, n)
    call('ZREM', deferred, n)
    call('ZREM', expiry, pad(n))
    call('SREM', overdue, n)
    if shared then shared.drop(n) end
    if session then session.remove(n) end
  end

  -- reason is m (too many deliveries), x (expired) or nil (the receiver has given one).
  local function deadLetter(n, reason)
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
      add('z', ARGV[1])
      local id = call('XADD', dead, 'NOMKSTREAM', '0-*', unpack(fields))
      if id then
        call('HINCRBY', deadHead, 's', 1)
        if shared then shared.move(n, sub(id, 3)) end
        if history then history.add('m', n, {other = sub(id, 3), reason = reason, record = record}) end
        deadLettered = true
      end
      budget = budget - #fields[2] / 4096
    end
    remove(n)
  end

  -- expire ends message n, whose time to live is over.
  local function expire(n)
    if not dropExpired then return deadLetter(n, 'x') end
    if history then history.add('x', n) end
    remove(n)
  end

  -- isOverdue reports whether message n, which was locked or deferred, has expired meanwhile.
  local function isOverdue(n)
    if not canExpire then return false end
    if call('SISMEMBER', overdue, n) == 1 then return true end
    local at = call('ZSCORE', expiry, pad(n))
    return at and tonumber(at) <= now
  end

  -- release makes message n available after its lock. A deferred message stays deferred.
  local function release(n)
    if call('ZSCORE', deferred, n) then
      call('ZADD', deferred, 0, n)
      if session then session.defer(n) end
    elseif isOverdue(n) then
      expire(n)
    elseif not session or not session.release(n) then
      call('ZADD', again, n, n)
      ready = true
    end
  end

  -- fail releases message n after a failed delivery. how is a if the message was abandoned, f if it
  -- was deferred, and otherwise the expired member of locks.
  local function fail(n, how)
    if #how == 16 then -- it was released with a delay
      if history then history.add('u', n) end
      return release(n)
    end
    local failures = countsDeliveries and call('HINCRBY', counts, n, 1)
    if history then
      local kind = how == 'a' and 'b' or how == 'f' and 'f' or #how == 15 and 'w' or 'l'
      history.add(kind, n, {failures = failures})
    end
    if countsDeliveries and maxDeliveries > 0 and failures >= maxDeliveries then
      deadLetter(n, 'm')
    else
      release(n)
    end
  end

  -- delay is fail or release after a delay. how is settle.lua's outcome. Until the delay ends, the
  -- message stays in locks without a nonce. Waiting receivers must learn when the delay ends. After
  -- the last delivery there is no delay.
  local function delay(n, how)
    local failures = countsDeliveries and tonumber(call('HGET', counts, n) or 0) or 0 -- imported dead letters have counts
    local outcome, first, factor, most = string.match(how, '^delay (%S+) (%S+) (%S+) (%S+)$')
    local counted = outcome == 'abandon'
    if counted and countsDeliveries and maxDeliveries > 0 and failures + 1 >= maxDeliveries then return fail(n, 'a') end
    local deadline = format('%.0f', now + math.floor(math.min(first * factor ^ failures, tonumber(most))))
    call('ZADD', locks, deadline, pad(n) .. (counted and '' or 'r'))
    call('ZADD', deferred, 'XX', deadline, n)
    noteDeadline(deadline)
    if history then history.add('t', n, {['until'] = deadline}) end
    if session then session.delay(n) end
    ready = true
  end

  -- activate appends a scheduled message under a new number. It removes a reserved message, because
  -- the message's transaction has ended.
  local function activate(n, member)
    if #member > 15 then return remove(n) end
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
      call('ZADD', again, format('%.0f', neverDelivered + fresh), fresh)
    else
      fresh = sub(call('XADD', stream, '0-*', unpack(fields)), 3)
      call('HINCRBY', head, 's', 1)
    end
    call('XDEL', stream, '0-' .. n)
    if history then history.add('v', n, {other = fresh, record = fields[2]}) end
    if ttl and canExpire then
      call('ZADD', expiry, format('%.0f', now + ttl), pad(fresh))
      noteDeadline(now + ttl)
    end
    budget = budget - #fields[2] / 4096
    if not session or not session.rename(n, fresh) then ready = true end
  end

  -- isAvailable reports whether lock.lua would deliver message n.
  local function isAvailable(n)
    local inSession = session and session.isAvailable(n)
    if inSession then return inSession == 'yes' end
    local isNew = tonumber(n) > tonumber(call('HGET', head, 'c') or 0) and not call('ZSCORE', holes, n)
    return isNew or call('ZSCORE', again, n)
  end

  -- expireDue ends the expired message n if it is available, and otherwise notes it in overdue.
  local function expireDue(n)
    if not isAvailable(n) then
      call('SADD', overdue, n)
      return
    end
    if call('ZREM', again, n) == 0 and not (session and session.isAvailable(n)) then call('ZADD', holes, n, n) end
    expire(n)
  end

  return {
    activate = activate, deadLetter = deadLetter, remove = remove, expire = expire, fail = fail, release = release,
    isAvailable = isAvailable, isOverdue = isOverdue, expireDue = expireDue, delay = delay,
  }
end

local function act(what, n, how)
  actions = actions or makeActions()
  return actions[what](n, how)
end

-- runDue removes what is due from a zset, ordered by time and number, and applies an action to it.
-- It returns false if the budget is used up first.
local function runDue(key, what)
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

-- endExpired ends the expired locks, ordered by deadline and number. It returns false if the budget
-- is used up first. It expands only one block's numbers at a time, even if many locks end together.
local function endExpired()
  if call('EXISTS', blocks) == 0 then return runDue(locks, 'fail') end
  while true do
    local first, due, lockOf, last = call('ZRANGE', locks, 0, 0, 'WITHSCORES')[2], {}, {}, nil
    if not first or tonumber(first) > now then return true end
    for _, member in ipairs(call('ZRANGEBYSCORE', locks, first, first, 'LIMIT', 0, 128)) do
      local n = tonumber(sub(member, 1, 15))
      last = last or n - n % 128 + 127
      if n > last then break end
      local these = singles(member)
      for _, lock in ipairs(these) do
        due[#due + 1] = number(lock)
        lockOf[due[#due]] = lock
      end
      if #these == 0 then call('ZREM', locks, member) end -- the block has no more bits
    end
    table.sort(due, function(a, b) return tonumber(a) < tonumber(b) end)
    for _, n in ipairs(due) do
      if budget <= 0 then return false end
      budget = budget - 1
      unlock({lockOf[n]})
      act('fail', n, lockOf[n])
    end
  end
end

local never = 9007199254740991

-- removeRepeated removes messages that a call stored although its repetition had already run.
local function removeRepeated()
  local first, n = string.match(call('HGET', head, 'u') or '', '^(%d+) (%d+)$')
  if not first then return end
  call('HDEL', head, 'u')
  for at = first, first + n - 1 do
    call('XDEL', stream, format('0-%d', at))
    call('ZADD', holes, at, format('%d', at))
  end
end

-- sweep ends expired locks, activates scheduled messages and ends expired messages. It returns
-- false if more is due; the caller then returns 'more'.
local function sweep()
  due = tonumber(call('HGET', head, 'd') or 0)
  if due > now then return true end
  removeRepeated()
  local done = (not session or session.sweep()) and endExpired() and runDue(scheduled, 'activate') and
    (not canExpire or runDue(expiry, 'expireDue'))
  if not done then return false end
  due = session and session.nextEnd() or never
  for _, key in ipairs({locks, scheduled, canExpire and expiry or locks}) do
    local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
    due = math.min(due, tonumber(first or never)) -- a lock in a session has no deadline
  end
  if call('EXISTS', stream) == 1 then call('HSET', head, 'd', format('%.0f', due)) end
  return true
end

-- nextDue returns when a sweep will find something, or 0. Of the messages that expire, only
-- available ones count; emptied says that there are none.
local function nextDue(emptied)
  if due == never then return 0 end
  local next = session and session.nextEnd() or never
  for _, key in ipairs({locks, scheduled}) do
    local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
    next = math.min(next, tonumber(first[2] or next))
  end
  if not emptied then
    -- If none of the first hundred is available, the next look at the last one's time is early
    -- enough.
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
