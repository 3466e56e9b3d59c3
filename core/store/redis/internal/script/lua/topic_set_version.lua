#!lua flags=allow-oom
-- topic_set_version.lua: tell a topic's partition the version of its subscriptions.
-- KEYS[1] stream  stream  of the topic's own queue
-- KEYS[2] head    hash    its head
-- ARGV[1] version
-- Returns {'ok'}
if redis.call('EXISTS', KEYS[1]) == 1 and tonumber(redis.call('HGET', KEYS[2], 'v') or 0) < tonumber(ARGV[1]) then
  redis.call('HSET', KEYS[2], 'v', ARGV[1])
end
return {'ok'}
