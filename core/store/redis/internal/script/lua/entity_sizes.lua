-- entity_sizes.lua: functions for the sizes of a namespace's queues and topics. The loader puts it before the
-- scripts that create and update entities. It has no keys of its own.

-- sizeOf returns the size in MB of a catalogue value, as core.Entity computes it.
local function sizeOf(value)
  local settings = cjson.decode(string.match(value, '^%d+:[^:]*:(.*)$')).Settings
  local size = settings.MaxSizeInMegabytes or 0
  return settings.EnablePartitioning and size * 16 or size
end

-- sizes returns the total size in MB of all queues and topics, except the one named except.
local function sizes(entities, names, except)
  local sum, from = 0, '[0:'
  repeat
    local members, folded = redis.call('ZRANGEBYLEX', names, from, '(2:', 'LIMIT', 0, 1000), {}
    for _, member in ipairs(members) do
      local name = string.sub(member, 3)
      if name ~= except then folded[#folded + 1] = name end
      from = '(' .. member
    end
    if #folded > 0 then
      for _, value in ipairs(redis.call('HMGET', entities, unpack(folded))) do
        if value then sum = sum + sizeOf(value) end
      end
    end
  until #members < 1000
  return sum
end
