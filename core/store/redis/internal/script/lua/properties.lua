-- properties.lua: a function that adds properties to those that settlements have set on a message. The loader puts it
-- after sweep.lua. A text is a sequence of length-prefixed AMQP maps (AMQP 1.0, part 1); later maps replace properties
-- of earlier ones.
local maxProperties = 65536 -- bytes of a map without its length
local maxReason = 16384 -- bytes that the properties of a dead letter may add in a full partition

local widths = {[4] = 0, [5] = 1, [6] = 2, [7] = 4, [8] = 8, [9] = 16} -- of values whose constructor begins with 4 to 9

-- after returns the position after the AMQP value at at.
local function after(text, at)
  local code = text:byte(at)
  local width = widths[math.floor(code / 16)]
  if code == 0 then return after(text, after(text, at + 1)) end -- a described value
  if width then return at + 1 + width end
  if code % 32 < 16 then return at + 2 + text:byte(at + 1) end
  return at + 5 + struct.unpack('>I4', text, at + 1)
end

-- length reads the length of a map, in bytes, and returns it with the position after it.
local function length(text, at)
  local n, unit = 0, 1
  while text:byte(at) >= 128 do
    n, unit, at = n + text:byte(at) % 128 * unit, unit * 128, at + 1
  end
  return n + text:byte(at) * unit, at + 1
end

-- merged returns text as one map with each property once, and the bytes of this map.
local function merged(text)
  local values, keys, at = {}, {}, 1
  while at <= #text do
    local n
    n, at = length(text, at)
    local last = at + n
    at = at + (text:byte(at) == 0xc1 and 3 or 9) -- after the size and count of a map8 or map32
    while at < last do
      local value = after(text, at)
      local key, next = sub(text, at, value - 1), after(text, value)
      if not values[key] then keys[#keys + 1] = key end
      values[key], at = sub(text, value, next - 1), next
    end
  end
  local entries = {}
  for i, key in ipairs(keys) do entries[i] = key .. values[key] end
  local map = table.concat(entries)
  map = struct.pack('>BI4I4', 0xd1, #map + 4, 2 * #keys) .. map
  local prefix, n = '', #map
  while n >= 128 do
    prefix, n = prefix .. string.char(128 + n % 128), math.floor(n / 128)
  end
  return prefix .. string.char(n) .. map, #map
end

-- changed returns what is set on message n after a settlement that sets text, or nil and the code of a refusal. What
-- was set before does not count for a dead letter. In a full partition, it must not become larger.
local function changed(n, outcome, text, full)
  if text == '' then return text end
  if length(text, 1) > maxProperties then return nil, 'too_large' end
  local before = call('HGET', overrides, n) or ''
  local set = before .. text
  if #set <= maxProperties and not full then return set end
  local compact, size = merged(set)
  local dies = outcome == 'dead-letter'
  if size > maxProperties and not dies then return nil, 'too_large' end
  if full then
    local room = (before ~= '' and #merged(before) or 0) + (dies and maxReason or 0)
    if #compact > room then return nil, 'quota_exceeded' end
  end
  return compact
end
