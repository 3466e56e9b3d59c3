-- sweep_idle.lua: answer a sweep that would find nothing. The loader puts it before state.lua,
-- for sweep_only.lua. Most calls end here, which saves creating the functions of state.lua.

-- keepReceipt keeps the last number before the commands after this script store their messages.
local function keepReceipt(last)
  if ARGV[6] then redis.call('SET', KEYS[#KEYS], ARGV[6] .. cmsgpack.pack({'ok', 'after', tonumber(last or 0)}), 'PX', 10000) end
end

if ARGV[5] ~= '1' then
  local state = redis.call('HMGET', KEYS[2], 'd', 's')
  if tonumber(state[1] or 0) > tonumber(ARGV[1]) then
    keepReceipt(state[2])
    return {'ok', 0}
  end
end
