#!lua flags=allow-oom
-- rate.lua: take from a rate, like core.Rate.Take.
-- KEYS[1] rate  string  when the burst is whole again (us), a space, and the rate of the last call
-- ARGV[1] now   ms
-- ARGV[2] every us
-- ARGV[3] burst
-- ARGV[4] max   how many at most
-- Returns {'ok', granted, when one more is allowed (ms), 1 if the last call had another rate}
local now, every, burst, max = tonumber(ARGV[1]) * 1000, tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local last = redis.call('GET', KEYS[1]) or ''
local mark = ' ' .. ARGV[2] .. ' ' .. ARGV[3]
local whole = tonumber(string.match(last, '^%d+') or 0)
whole = math.min(math.max(whole, now), now + burst * every)
local granted = math.min(max, math.floor((now + burst * every - whole) / every))
whole = whole + granted * every
local text = string.format('%.0f', whole) .. mark
-- The key outlives the burst by a day, because the caller's clock may stand still while Redis'
-- clock runs.
redis.call('SET', KEYS[1], text, 'PX', string.format('%.0f', math.ceil((whole - now) / 1000) + 86400000))
local other = last ~= '' and string.match(last, ' .*$') ~= mark
return {'ok', granted, math.ceil((whole - (burst - 1) * every) / 1000), other and 1 or 0}
