-- session_arrivals.lua: messages become available in sessions; the loader puts it in
-- front of the scripts in which they may. It has no keys of its own.
-- Arguments name a session by its key and, where the id reads otherwise, a zero
-- byte and the id behind it. Keys hold no zero byte: core.KeyOfSession sees to that.

-- keyOf returns the key in the name of a session.
local function keyOf(name)
  local zero = string.find(name, '\0', 1, true)
  return zero and sub(name, 1, zero - 1) or name
end

-- arrive makes messages, lowest number first, available in their sessions: k
-- holds the keys waits, open, holders and waiting of sessions.lua and the bell.
-- Holders who wait are rung. It returns true if some session is there to accept.
local function arrive(k, numbers, names)
  local members, lowest, order, opened = {}, {}, {}, false
  for i, n in ipairs(numbers) do
    local sid = keyOf(names[i])
    members[#members + 1] = 0
    members[#members + 1] = sid .. '\0' .. pad(n)
    if not lowest[sid] then
      lowest[sid] = n
      order[#order + 1] = sid
    end
  end
  many('ZADD', k.waits, members)
  for _, sid in ipairs(order) do
    if call('HEXISTS', k.holders, sid) == 1 then
      if call('SREM', k.waiting, sid) == 1 then call('SPUBLISH', k.bell, sid) end
    else
      call('ZADD', k.open, 'LT', lowest[sid], sid)
      opened = true
    end
  end
  return opened
end
