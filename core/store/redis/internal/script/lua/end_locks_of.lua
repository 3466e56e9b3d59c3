#!lua flags=allow-oom
-- end_locks_of.lua: end locks of gateways that have ended, without a failed delivery. These are locks of sessions that
-- cannot be taken over and, in queues without sessions, locks of messages that brokers took for their own work.
-- KEYS[1..16] as in state.lua, then those of shared_bodies.lua and sessions.lua, if they are loaded before
-- ARGV[1..4] as in state.lua
-- ARGV[5..]  marks of the gateways, with which the nonces of such locks begin, or whole proofs of session locks
--            of which no receiver knows
-- Returns {'ok'} | {'more'}: call again
if not sweep() then
  wake()
  return {'more'}
end
local ended = {}
for i = 5, #ARGV do ended[ARGV[i]] = true end
if session then
  local all = call('HGETALL', holders)
  for i = 1, #all, 2 do
    if ended[all[i + 1]] or #all[i + 1] == 8 and ended[sub(all[i + 1], 1, 3)] then
      if not endLocks(sessionMembers(held, all[i], -1), 'release') then
        wake()
        return {'more'}
      end
      endSessionLock(all[i])
    end
  end
elseif not releaseThose(function(nonce) return ended[sub(nonce, 1, 3)] end) then
  wake()
  return {'more'}
end
wake()
return {'ok'}
