#!lua
-- commit.lua: do all of a piece of work, or nothing. The scripts settle, cancel, append and publish stand in front,
-- each as the body of a function of its ARGV.
-- KEYS[1..15] as in state.lua, then those of shared.lua and sessions.lua where they are in front
-- KEYS[16] seen    zset  as in append.lua
-- KEYS[17] moved   zset  as in append.lua
-- KEYS[18] bodies  hash  as in publish.lua
-- KEYS[19] refs    hash  as in publish.lua
-- KEYS[20..] of each target as in publish.lua; then stream, head and bell of the transfer queue
-- ARGV[1..4] as in state.lua
-- ARGV[5]    full       1: the partition has no room for messages
-- ARGV[6]    void       1: some number to cancel cannot be found whatever is here
-- ARGV[7]    settles    how many arguments of settle.lua follow, without those of state.lua
-- ARGV[8]    cancels    likewise of cancel.lua
-- ARGV[9]    appends    likewise of append.lua
-- ARGV[10]   publishes  likewise of publish.lua
-- ARGV[11..] all of these in that order, and then for each transfer or dead letter 0 or the place of the message that it
--            comes of among those of append.lua or publish.lua, t or d, record
-- Returns {'ok', n...} as append.lua or publish.lua | {'not_found'} | {'lock_lost'} | {'not_allowed'} |
--         {'invalid_argument'} | {'message_not_found'} | {'conflict'} | {'quota_exceeded'} | {'more'}: call again
if call('EXISTS', stream) == 0 then return {'not_found'} end
if not sweep() then
  ring()
  return {'more'}
end
budget = math.huge -- what follows is one step

local at = 11
local function section(length)
  local args = {ARGV[1], ARGV[2], ARGV[3], ARGV[4]}
  for i = at, at + length - 1 do args[#args + 1] = ARGV[i] end
  at = at + length
  return args
end
local settles, cancels = section(tonumber(ARGV[7])), section(tonumber(ARGV[8]))
local appends, publishes = section(tonumber(ARGV[9])), section(tonumber(ARGV[10]))

-- refuse says why nothing may be done; publish does that for itself, before it does anything.
local function refuse()
  local given = {}
  for i = 5, #settles, 4 do
    local outcome, member = settles[i], settles[i + 2]
    if given[member] or not call('ZSCORE', locks, member) then return 'lock_lost' end
    if outcome == 'dead-letter' and not counting then return 'not_allowed' end
    if outcome == 'unknown' then return 'invalid_argument' end
    given[member] = true
  end
  if ARGV[6] == '1' then return 'message_not_found' end
  for i = 5, #cancels do
    if not call('ZSCORE', scheduled, pad(cancels[i])) then return 'message_not_found' end
  end
  if ARGV[5] == '1' then return 'quota_exceeded' end
end

local refusal = refuse()
if refusal then
  ring()
  return {refusal}
end
local reply = {'ok'}
if #publishes > 4 then
  local numbers = publish(publishes)[2]
  if type(numbers) == 'string' then return {numbers} end
  for i, n in ipairs(numbers) do reply[i + 1] = n end
elseif #appends > 4 then
  reply = append(appends)
end
if #settles > 4 then settle(settles) end
if #cancels > 4 then cancel(cancels) end
local last
for i = at, #ARGV, 3 do
  local of = 1 + tonumber(ARGV[i])
  if of > 1 and reply[of] == 0 then -- nothing comes of what was there before
  elseif ARGV[i + 1] == 'd' then
    local entry = call('XADD', dead, 'NOMKSTREAM', '0-*', 'd', ARGV[i + 2])
    if entry then
      if history then history.add('a', sub(entry, 3), {sub = 1, record = ARGV[i + 2]}) end
      call('HINCRBY', deadHead, 's', 1)
      buried = true
    end
  else
    local entry = call('XADD', KEYS[#KEYS - 2], 'NOMKSTREAM', '0-*', 'd', ARGV[i + 2])
    last = entry and sub(entry, 3)
    if entry and history then history.add('a', last, {sub = 2, record = ARGV[i + 2]}) end
  end
end
for i = 2, #reply do
  if reply[i] < 0 then reply[i] = 0 end
end
if last then
  call('HSET', KEYS[#KEYS - 1], 's', last)
  if call('HDEL', KEYS[#KEYS - 1], 'w') == 1 then call('SPUBLISH', KEYS[#KEYS], '') end
end
ring()
return reply
