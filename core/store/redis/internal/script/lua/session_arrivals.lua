-- session_arrivals.lua: functions that make messages of sessions available. The loader puts it before the
-- scripts that need it. It has no keys of its own. A session's name in arguments is its key and, if
-- the id differs from it, a zero byte and the id. Keys contain no zero byte: core.KeyOfSession
-- ensures that.

-- keyOf returns the session's key, with which its name begins.
local function keyOf(name)
  local zero = string.find(name, '\0', 1, true)
  return zero and sub(name, 1, zero - 1) or name
end

-- queueUp puts free sessions at the end of freeSessions; those that already wait keep their turns.
local function queueUp(freeSessions, sids)
  local turn = tonumber(call('ZRANGE', freeSessions, -1, -1, 'WITHSCORES')[2] or 0)
  for _, sid in ipairs(sids) do
    turn = turn + call('ZADD', freeSessions, 'NX', format('%.0f', turn + 1), sid)
  end
end

-- isPaused reports whether a delayed message pauses a session. k is as for addAvailable. Earlier
-- versions on the same store do not remove messages from paused when their delays end.
local function isPaused(k, sid)
  for _, member in ipairs(call('ZRANGEBYLEX', k.paused, '[' .. sid .. '\0', '(' .. sid .. '\1')) do
    local n = sub(member, -15)
    if call('ZSCORE', k.locks, n) or call('ZSCORE', k.locks, n .. 'r') then return true end
    call('ZREM', k.paused, member)
  end
  return false
end

-- wakeHolder wakes the holder of a session if it waits. k is as for addAvailable.
local function wakeHolder(k, sid)
  if call('SREM', k.waiting, sid) == 1 then call('SPUBLISH', k.bell, sid) end
end

-- addAvailable makes messages available in their sessions, lowest number first. k has the keys
-- available, freeSessions, holders, waiting and paused of sessions.lua, locks of state.lua, and the
-- doorbell. It wakes waiting holders, and returns true if a session can now be accepted.
local function addAvailable(k, numbers, names)
  local members, known, order, free = {}, {}, {}, {}
  for i, n in ipairs(numbers) do
    local sid = keyOf(names[i])
    members[#members + 1] = 0
    members[#members + 1] = sid .. '\0' .. pad(n)
    if not known[sid] then
      known[sid] = true
      order[#order + 1] = sid
    end
  end
  many('ZADD', k.available, members)
  local pauses = call('EXISTS', k.paused) == 1
  for _, sid in ipairs(order) do
    if pauses and isPaused(k, sid) then -- when the pause ends, the session is offered, or its holder woken
    elseif call('HEXISTS', k.holders, sid) == 1 then
      wakeHolder(k, sid)
    else
      free[#free + 1] = sid
    end
  end
  if #free > 0 then queueUp(k.freeSessions, free) end
  return #free > 0
end
