#!lua flags=allow-oom
-- shared_bodies_release.lua: release the shared bodies of a deleted subscription's queue, some in
-- each call.
-- KEYS[1] shares  hash  n -> number of the publication
-- KEYS[2] bodies  hash  number of the publication -> body, for all subscriptions
-- KEYS[3] refs    hash  as in shared_bodies.lua
-- ARGV[1] dead    1: the queue holds dead letters
-- Returns {'ok', how many are left}
local call, shares, bodies, refs, dead = redis.call, KEYS[1], KEYS[2], KEYS[3], ARGV[1] == '1'
local some = call('HRANDFIELD', shares, 500, 'WITHVALUES')
for i = 1, #some, 2 do
  local p = some[i + 1]
  local own, other = p, 'd' .. p
  if dead then own, other = other, own end
  call('HDEL', shares, some[i])
  if call('HINCRBY', refs, own, -1) <= 0 then
    call('HDEL', refs, own)
    if call('HEXISTS', refs, other) == 0 then call('HDEL', bodies, p) end
  end
end
return {'ok', call('HLEN', shares)}
