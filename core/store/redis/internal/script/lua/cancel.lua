#!lua flags=allow-oom
-- cancel.lua: remove scheduled and reserved messages, all or none.
-- KEYS[1..16] as in state.lua
-- ARGV[1..4] as in state.lua
-- ARGV[5..]  numbers, each once
-- Returns {'ok'} | {'message_not_found'} | {'more'}: call again
local done = sweep()
wake()
if not done then return {'more'} end
if call('EXISTS', stream) == 0 then return {'message_not_found'} end
local members, ids = {}, {}
for i = 5, #ARGV do
  members[#members + 1] = pad(ARGV[i])
  ids[#ids + 1] = '0-' .. ARGV[i]
end
local reserved = {}
for i, due in ipairs(ask('ZMSCORE', scheduled, members)) do
  if not due then
    members[i] = members[i] .. 'r'
    if not call('ZSCORE', scheduled, members[i]) then return {'message_not_found'} end
    reserved[i] = true
  end
end
many('ZREM', scheduled, members)
many('XDEL', stream, ids) -- the cursor passes these numbers later
if history then
  for i = 5, #ARGV do
    if not reserved[i - 4] then history.add('k', ARGV[i]) end
  end
end
if session then
  for i = 5, #ARGV do session.remove(ARGV[i]) end
end
return {'ok'}
