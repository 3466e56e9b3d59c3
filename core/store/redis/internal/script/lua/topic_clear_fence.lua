#!lua flags=allow-oom
-- topic_clear_fence.lua: record that a topic's partitions know the version of its subscriptions.
-- KEYS[1] fences  hash  ID of a topic -> the version that its partitions have not been told yet
-- ARGV[1] topicID
-- ARGV[2] version
-- Returns {'ok'}
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then redis.call('HDEL', KEYS[1], ARGV[1]) end
return {'ok'}
