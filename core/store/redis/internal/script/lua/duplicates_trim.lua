#!lua flags=allow-oom
-- duplicates_trim.lua: remove ids that duplicate detection no longer needs.
-- KEYS[1] seen   zset  ids within the duplicate window by first acceptance (ms)
-- ARGV[1] until  ms; ids of that time or earlier are removed
-- Returns how many were removed, at most 5000 in one call
local gone = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, 5000)
for i = 1, #gone, 1000 do
  redis.call('ZREM', KEYS[1], unpack(gone, i, math.min(i + 999, #gone)))
end
return #gone
