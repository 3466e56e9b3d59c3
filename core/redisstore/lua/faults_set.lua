#!lua flags=allow-oom
-- faults_set.lua: replace the fault rules of a namespace, unless they have changed meanwhile.
-- KEYS[1] faults      hash  ARGV[3] -> the rules; <id>:matched, <id>:met -> the counts of a rule
-- ARGV[1] channel     on which changes are published
-- ARGV[2] change      the message on it
-- ARGV[3] field       that has the rules
-- ARGV[4] basis       the rules that the change is based on, '' for none
-- ARGV[5] rules
-- ARGV[6] life        ms, after which all is forgotten
-- ARGV[7..] ids       of the rules
-- Returns {'ok'} | {'conflict'}
if (redis.call('HGET', KEYS[1], ARGV[3]) or '') ~= ARGV[4] then return {'conflict'} end
redis.call('HSET', KEYS[1], ARGV[3], ARGV[5])
local kept = {[ARGV[3]] = true}
for i = 7, #ARGV do
  for _, count in ipairs({':matched', ':met'}) do
    kept[ARGV[i] .. count] = true
    redis.call('HSETNX', KEYS[1], ARGV[i] .. count, 0)
  end
end
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if not kept[field] then redis.call('HDEL', KEYS[1], field) end
end
redis.call('PEXPIRE', KEYS[1], ARGV[6])
redis.call('PUBLISH', ARGV[1], ARGV[2])
return {'ok'}
