#!lua flags=allow-oom
-- lock_undo.lua: end, without a failed delivery, the locks of a call of lock.lua whose answer was lost.
-- KEYS[1..15] as in state.lua
-- ARGV[1..4] as in state.lua
-- ARGV[5] nonce  of the call
-- Returns {'ok'} | {'more'}: call again
if not sweep() then
  wake()
  return {'more'}
end
for _, member in ipairs(call('ZRANGE', locks, 0, -1)) do
  if sub(member, 16) == ARGV[5] then
    if budget <= 0 then
      wake()
      return {'more'}
    end
    budget = budget - 1
    local n = number(member)
    call('ZREM', locks, member)
    if history then history.add('u', n) end
    act('release', n)
  end
end
wake()
return {'ok'}
