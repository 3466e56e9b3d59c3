#!lua flags=allow-oom
-- entity_touch.lua: record when entities were last used.
-- KEYS[1] entities  hash  folded name -> <revision>:<id>:<record>
-- KEYS[2] accessed  zset  folded names by last use (ms)
-- ARGV[1..] for each entity: folded name; ms
-- Returns {'ok'}
for i = 1, #ARGV, 2 do
  if redis.call('HEXISTS', KEYS[1], ARGV[i]) == 1 then redis.call('ZADD', KEYS[2], 'GT', ARGV[i + 1], ARGV[i]) end
end
return {'ok'}
