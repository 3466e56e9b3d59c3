#!lua
-- partition_copy.lua: copy keys of a partition to other names, for an export.
-- KEYS[1] stream         stream  of the queue or topic itself
-- KEYS[2] subscriptions  set     IDs of a topic's subscriptions
-- KEYS[3..] each key, followed by the name of its copy
-- ARGV[1] life  how long the copies are kept, ms
-- ARGV[2..] IDs of the subscriptions whose keys are among them
-- Returns {'ok'} | {'not_found'} | {'conflict'}: the topic has other subscriptions
local call = redis.call
if call('EXISTS', KEYS[1]) == 0 then return {'not_found'} end
if call('SCARD', KEYS[2]) ~= #ARGV - 1 then return {'conflict'} end
for i = 2, #ARGV do
  if call('SISMEMBER', KEYS[2], ARGV[i]) == 0 then return {'conflict'} end
end
for i = 3, #KEYS, 2 do
  if call('COPY', KEYS[i], KEYS[i + 1], 'REPLACE') == 1 then call('PEXPIRE', KEYS[i + 1], ARGV[1]) end
end
return {'ok'}
