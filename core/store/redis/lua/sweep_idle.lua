-- sweep_idle.lua: answer a sweep that would find nothing. The loader puts it in front of state.lua,
-- for sweep_only.lua. Most calls end here, before state.lua makes its functions.
if ARGV[5] ~= '1' then
  local d = redis.call('HGET', KEYS[2], 'd')
  if d and tonumber(d) > tonumber(ARGV[1]) then return {'ok', 0} end
end
