#!lua flags=allow-oom
-- activate.lua: make a message available by its number, or change when a scheduled message becomes due.
-- KEYS[1..16] as in state.lua
-- ARGV[1..4] as in state.lua
-- ARGV[5] n   its number
-- ARGV[6] at  when a scheduled message becomes due (ms), 0: now
-- Returns {'ok'} | {'message_not_found'}: it is not deferred, delayed, locked or scheduled, or not scheduled
--         although at is given | {'session_locked'}: it is locked in a session | {'more'}: call again
if not sweep() then
  wake()
  return {'more'}
end
local n, at = ARGV[5], ARGV[6]
local padded = pad(n)

-- lockOf finds the message's member of locks. It looks at all locks, in steps.
local function lockOf()
  for _, member in ipairs({padded, padded .. 'r'}) do
    if call('ZSCORE', locks, member) then return member end
  end
  local found
  local function scan(command, key, pattern, use)
    local cursor = '0'
    repeat
      local page = call(command, key, cursor, 'MATCH', pattern, 'COUNT', 1000)
      for i = 1, #page[2], 2 do use(page[2][i]) end
      cursor = page[1]
    until cursor == '0' or found
  end
  scan('ZSCAN', locks, padded .. '*', function(member)
    if #member == 23 then found = member end
  end)
  if found then return found end
  scan('HSCAN', blocks, pad(n - n % 128) .. '*', function(block)
    local member = padded .. sub(block, 16, 23)
    if bitsOf(member) then found = member end
  end)
  return found
end

local function activate()
  local lockEnd = call('ZSCORE', deferred, n)
  local lock = lockEnd ~= '0' and lockOf()
  if at ~= '0' or not lock and not lockEnd then return 'message_not_found' end
  local sid = session and sessionOf(n)
  if sid and lock and #lock == 23 then return 'session_locked' end
  if lock then unlock({lock}) end
  if lockEnd then
    call('ZREM', deferred, n)
    if sid then session.lock(n, sid) end -- the message leaves the deferred messages of its session
  end
  if history then history.add('u', n) end
  act('release', n)
end

-- reschedule changes when a scheduled message becomes due.
local function reschedule()
  call('ZADD', scheduled, at, padded)
  noteDeadline(at)
  if history then history.add('s', n, {['until'] = at}) end
  local name = session and call('HGET', sessionNames, n)
  if name then session.noteScheduled(n, name) end
  ready = true -- a waiting receiver must learn when to look again
end

local refusal
if not call('ZSCORE', scheduled, padded) then
  refusal = activate()
elseif tonumber(at) > now then
  reschedule()
else
  call('ZREM', scheduled, padded)
  act('activate', n, padded)
end
wake()
return {refusal or 'ok'}
