#!lua
-- commit.lua: commit the work of a transaction as a whole or not at all. The scripts settle, cancel,
-- append and topic_publish are loaded before, each as a function of its ARGV.
-- KEYS[1..16] as in state.lua, then those of shared_bodies.lua and sessions.lua, if they are
--             loaded before
-- KEYS[17] seen    zset  as in append.lua
-- KEYS[18] moved   zset  as in append.lua
-- KEYS[19] bodies  hash  as in topic_publish.lua
-- KEYS[20] refs    hash  as in topic_publish.lua
-- KEYS[21..] of each target as in topic_publish.lua; then stream, head and bell of the transfer
--            queue, and states, changed and stateful as in session_state_set.lua
-- ARGV[1..4] as in state.lua
-- ARGV[5]    full       1: the partition has no room for messages; 2: only larger states and
--                       properties are refused
-- ARGV[6]    void       1: a number to cancel belongs elsewhere and cannot be found
-- ARGV[7]    check      1: only check whether the work would be refused
-- ARGV[8]    settles    how many arguments of settle.lua follow, without those of state.lua
-- ARGV[9]    cancels    likewise of cancel.lua
-- ARGV[10]   appends    likewise of append.lua
-- ARGV[11]   publishes  likewise of topic_publish.lua
-- ARGV[12]   states     likewise of states to set: for each proof, name, given and state as in
--                       session_state_set.lua
-- ARGV[13]   reserved   likewise of reserved messages to schedule: the length of the duplicate
--                       window (ms, 0: none), and for each number, due (ms) and id for duplicate
--                       detection or ''
-- ARGV[14..] all of these in that order, then for each transfer or dead letter the index of the
--            message that it comes from, among those of append.lua or topic_publish.lua, or 0, t or
--            d, record
-- Returns {'ok', n...} as append.lua or topic_publish.lua | {'not_found'} | {'lock_lost'} |
--         {'session_lock_lost'} | {'not_allowed'} | {'invalid_argument'} | {'too_large'} | {'message_not_found'} |
--         {'conflict'} | {'quota_exceeded'} | {'more'}: call again
if call('EXISTS', stream) == 0 then return {'not_found'} end
if not sweep() then
  wake()
  return {'more'}
end
budget = math.huge -- the rest must be one step
sweep = function() return true end -- what the commit makes due waits for the next call

local at = 14
local function section(length)
  local args = {ARGV[1], ARGV[2], ARGV[3], ARGV[4]}
  for i = at, at + length - 1 do args[#args + 1] = ARGV[i] end
  at = at + length
  return args
end
local settles, cancels = section(tonumber(ARGV[8])), section(tonumber(ARGV[9]))
local appends, publishes = section(tonumber(ARGV[10])), section(tonumber(ARGV[11]))
local states, reserved = section(tonumber(ARGV[12])), section(tonumber(ARGV[13]))

-- refuse returns why the work must not be done. topic_publish checks its part before it changes
-- anything.
local function refuse()
  local given = {}
  local run = 5
  while run < #settles do
    local outcome, text, count = settles[run], settles[run + 1], tonumber(settles[run + 2])
    if outcome == 'within' then
      if not holds(settles[run + 3], text) then return 'session_lock_lost' end
    elseif outcome ~= 'without' then
      for i = run + 3, run + 2 + count do
        local member = settles[i]
        if given[member] or not areLocked({member})[1] then return 'lock_lost' end
        given[member] = true
      end
      if outcome == 'dead-letter' and not countsDeliveries then return 'not_allowed' end
      if outcome == 'unknown' then return 'invalid_argument' end
      for i = run + 3, run + 2 + count do
        if outcome ~= 'complete' then
          local set, code = changed(number(settles[i]), outcome, text, ARGV[5] == '2')
          if not set then return code end
        end
      end
    end
    run = run + 3 + count
  end
  for i = 5, #states, 4 do
    if not session or not holds(keyOf(states[i + 1]), states[i]) then return 'session_lock_lost' end
    if ARGV[5] == '2' and isLarger(KEYS[#KEYS - 2], states[i + 1], states[i + 2], states[i + 3]) then return 'quota_exceeded' end
  end
  if ARGV[6] == '1' then return 'message_not_found' end
  for i = 5, #cancels do
    local member = pad(cancels[i])
    if not call('ZSCORE', scheduled, member) and not call('ZSCORE', scheduled, member .. 'r') then return 'message_not_found' end
  end
  for i = 6, #reserved, 3 do
    if not call('ZSCORE', scheduled, pad(reserved[i]) .. 'r') then return 'message_not_found' end
  end
  if ARGV[5] == '1' then return 'quota_exceeded' end
end

local refusal = refuse()
if refusal or ARGV[7] == '1' then
  wake()
  return {refusal or 'ok'}
end
local reply = {'ok'}
if #publishes > 4 then
  local numbers = topic_publish(publishes)[2]
  if type(numbers) == 'string' then return {numbers} end
  for i, n in ipairs(numbers) do reply[i + 1] = n end
elseif #appends > 4 then
  reply = append(appends)
end

-- schedule schedules a reserved message, or removes it if duplicate detection knows its id.
local function schedule(n, due, id, window)
  call('ZREM', scheduled, pad(n) .. 'r')
  local seen, record = KEYS[taken + 1], history and (call('XRANGE', stream, '0-' .. n, '0-' .. n)[1] or {'', {'', ''}})[2][2]
  local since = id ~= '' and call('ZSCORE', seen, id)
  if since and tonumber(since) + window > now then
    if history then history.add('d', 0, {record = record}) end
    act('remove', n)
    return
  end
  if id ~= '' then call('ZADD', seen, ARGV[1], id) end
  call('ZADD', scheduled, due, pad(n))
  noteDeadline(due)
  if history then history.add('s', n, {['until'] = due, record = record}) end
  local sid = session and call('HGET', sessionNames, n)
  if sid then session.noteScheduled(n, sid) end
  ready = true -- a waiting receiver must learn the new due time
end
for i = 6, #reserved, 3 do schedule(reserved[i], reserved[i + 1], reserved[i + 2], tonumber(reserved[5])) end
if #settles > 4 then settle(settles) end
if #cancels > 4 then cancel(cancels) end
local first = #KEYS - 2 -- of the key states
for i = 5, #states, 4 do
  setState(KEYS[first], KEYS[first + 1], KEYS[first + 2], states[i + 1], states[i + 2], states[i + 3])
end
local last
for i = at, #ARGV, 3 do
  local message = 1 + tonumber(ARGV[i])
  if message > 1 and reply[message] == 0 then -- its message was known
  elseif ARGV[i + 1] == 'd' then
    local entry = call('XADD', dead, 'NOMKSTREAM', '0-*', 'd', ARGV[i + 2])
    if entry then
      if history then history.add('a', sub(entry, 3), {sub = 1, record = ARGV[i + 2]}) end
      call('HINCRBY', deadHead, 's', 1)
      deadLettered = true
    end
  else
    local entry = call('XADD', KEYS[first - 3], 'NOMKSTREAM', '0-*', 'd', ARGV[i + 2])
    last = entry and sub(entry, 3)
    if entry and history then history.add('a', last, {sub = 2, record = ARGV[i + 2]}) end
  end
end
for i = 2, #reply do
  if reply[i] < 0 then reply[i] = 0 end
end
if last then
  call('HSET', KEYS[first - 2], 's', last)
  if call('HDEL', KEYS[first - 2], 'w') == 1 then call('SPUBLISH', KEYS[first - 1], '') end
end
wake()
return reply
