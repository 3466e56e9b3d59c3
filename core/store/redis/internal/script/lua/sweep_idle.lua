-- sweep_idle.lua: answer a sweep that would find nothing. The loader puts it before state.lua,
-- for sweep_only.lua. Most calls end here, which saves creating the functions of state.lua.

-- keepReceipt keeps the last number before the commands after this script store their ARGV[7] messages. If a
-- repetition of the call has already run, the next sweep removes these messages.
local function keepReceipt(last)
  local id, receipt = ARGV[6], KEYS[#KEYS]
  if not id then return end
  last = tonumber(last or 0)
  local kept = redis.call('SET', receipt, id .. cmsgpack.pack({'ok', 'after', last}), 'PX', 10000, 'GET')
  if kept and string.sub(kept, 1, #id) == id then
    redis.call('SET', receipt, kept, 'PX', 10000)
    redis.call('HSET', KEYS[2], 'u', string.format('%.0f %s', last + 1, ARGV[7]), 'd', 0)
  end
end

if ARGV[5] ~= '1' then
  local state = redis.call('HMGET', KEYS[2], 'd', 's')
  if tonumber(state[1] or 0) > tonumber(ARGV[1]) then
    keepReceipt(state[2])
    return {'ok', 0}
  end
end
