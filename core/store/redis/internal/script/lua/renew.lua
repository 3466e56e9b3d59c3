#!lua flags=allow-oom
-- renew.lua: extend locks that have not ended.
-- KEYS[1..16] as in state.lua
-- ARGV[1..4] as in state.lua
-- ARGV[5]    until  the new deadline, ms
-- ARGV[6..]  members of locks
-- Returns {'ok', index of each lost lock...} | {'more'}: call again
if not sweep() then
  wake()
  return {'more'}
end
local members = {}
for i = 6, #ARGV do members[#members + 1] = ARGV[i] end
local standing = areLocked(members)
local reply, extended, renewed, any = {'ok'}, {}, {}, call('EXISTS', deferred) == 1
for i, member in ipairs(members) do
  if standing[i] then
    renewed[#renewed + 1] = member
    extended[#extended + 1] = ARGV[5]
    extended[#extended + 1] = member
    if any then call('ZADD', deferred, 'XX', ARGV[5], number(member)) end
  else
    reply[#reply + 1] = i
  end
end
if call('EXISTS', blocks) == 1 then unlock(renewed) end -- a block has only one deadline
many('ZADD', locks, extended)
if #extended > 0 then noteDeadline(ARGV[5]) end
wake()
return reply
