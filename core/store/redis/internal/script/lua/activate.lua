#!lua flags=allow-oom
-- activate.lua: make messages available by their numbers, or change when scheduled messages become due.
-- KEYS[1..16] as in state.lua
-- ARGV[1..4] as in state.lua
-- ARGV[5..] for each message: its number; when it becomes due if it is scheduled (ms), 0: now
-- Returns {'ok', then index (from 1) and code of each refused message: message_not_found: it is not
--         deferred, delayed, locked or scheduled, or not scheduled although a time is given |
--         session_locked: it is locked in a session; or again, if this call had no time left for it} |
--         {'more'}: call again
if not sweep() then
  wake()
  return {'more'}
end

-- findLocks finds the locks of the messages, by number in 15 digits, in one scan of all locks.
local function findLocks()
  local found, inBlock = {}, {}
  for i = 5, #ARGV, 2 do
    local padded, block = pad(ARGV[i]), pad(ARGV[i] - ARGV[i] % 128)
    inBlock[block] = inBlock[block] or {}
    inBlock[block][padded] = true
  end
  local function scan(command, key, one, use)
    local cursor = '0'
    repeat
      local page = call(command, key, cursor, 'MATCH', #ARGV == 6 and one .. '*' or '*', 'COUNT', 1000)
      for i = 1, #page[2], 2 do use(page[2][i]) end
      cursor = page[1]
    until cursor == '0'
  end
  scan('ZSCAN', locks, pad(ARGV[5]), function(member)
    if #member == 23 then found[sub(member, 1, 15)] = member end
  end)
  scan('HSCAN', blocks, next(inBlock), function(block)
    for padded in pairs(inBlock[sub(block, 1, 15)] or {}) do
      local member = padded .. sub(block, 16, 23)
      if bitsOf(member) then found[padded] = member end
    end
  end)
  return found
end

-- lockOf returns the lock, or the delay, of message n.
local locked -- set by findLocks, once for all messages
local function lockOf(n)
  for _, member in ipairs({pad(n), pad(n) .. 'r'}) do
    if call('ZSCORE', locks, member) then return member end
  end
  locked = locked or findLocks()
  return locked[pad(n)]
end

-- activate makes message n, which is not scheduled, available. at must be 0.
local function activate(n, at)
  local lockEnd = call('ZSCORE', deferred, n)
  local lock = lockEnd ~= '0' and lockOf(n)
  if at ~= '0' or not lock and not lockEnd then return 'message_not_found' end
  local sid = session and sessionOf(n)
  if sid and lock and #lock == 23 then return 'session_locked' end
  if lock then
    unlock({lock})
    if locked then locked[pad(n)] = nil end
  end
  if lockEnd then
    call('ZREM', deferred, n)
    if sid then session.lock(n, sid) end -- the session's deferred messages no longer include n
  end
  if history then history.add('u', n) end
  act('release', n)
end

local function reschedule(n, at)
  call('ZADD', scheduled, at, pad(n))
  noteDeadline(at)
  if history then history.add('s', n, {['until'] = at}) end
  local name = session and call('HGET', sessionNames, n)
  if name then session.noteScheduled(n, name) end
  ready = true -- a waiting receiver must learn the new due time
end

local reply = {'ok'}
for i = 5, #ARGV, 2 do
  local n, at, refusal = ARGV[i], ARGV[i + 1], nil
  if budget <= 0 then -- moving bodies has used up the budget
    refusal = 'again'
  elseif not call('ZSCORE', scheduled, pad(n)) then
    refusal = activate(n, at)
  elseif tonumber(at) > now then
    reschedule(n, at)
  else
    call('ZREM', scheduled, pad(n))
    act('activate', n, pad(n))
  end
  if refusal then
    reply[#reply + 1] = (i - 3) / 2
    reply[#reply + 1] = refusal
  end
end
wake()
return reply
