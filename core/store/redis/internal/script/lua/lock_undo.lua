#!lua flags=allow-oom
-- lock_undo.lua: end the locks of a lock call whose answer was lost, without a failed delivery.
-- KEYS[1..16] as in state.lua
-- ARGV[1..4] as in state.lua
-- ARGV[5] nonce  of the call, in a session that of the session's lock
-- ARGV[6] score  in a session: the score in locks of what the call locked; else ''
-- Returns {'ok'} | {'more'}: call again
if not sweep() then
  wake()
  return {'more'}
end
if session then
  local lost = {}
  for _, member in ipairs(call('ZRANGEBYSCORE', locks, ARGV[6], ARGV[6])) do
    local n = number(member)
    if sub(member, 16) == ARGV[5] then lost[#lost + 1] = sessionMember(sessionOf(n), n) end
  end
  local done = endLocks(lost, 'release')
  wake()
  return {done and 'ok' or 'more'}
end
local done = releaseThose(function(nonce) return nonce == ARGV[5] end)
wake()
return {done and 'ok' or 'more'}
