#!lua flags=allow-oom
-- faults_count.lua: count an operation for a fault rule.
-- KEYS[1] faults  hash  as in faults_set.lua
-- ARGV[1] id      of the rule
-- ARGV[2] match   1: the operation is counted as matched; 0: it was before
-- ARGV[3] meet    1: it is counted as met, if the rule has matched more than skip; 0: it is not
-- ARGV[4] skip
-- ARGV[5] times   how many operations the rule meets
-- Returns {'ok', matched} | {'spent'}: there is no such rule, or it has met all
local met = redis.call('HGET', KEYS[1], ARGV[1] .. ':met')
if not met or tonumber(met) >= tonumber(ARGV[5]) then return {'spent'} end
local matched = redis.call('HINCRBY', KEYS[1], ARGV[1] .. ':matched', ARGV[2])
if ARGV[3] == '1' and matched > tonumber(ARGV[4]) then redis.call('HINCRBY', KEYS[1], ARGV[1] .. ':met', 1) end
return {'ok', matched}
