#!lua flags=allow-oom
-- session_list.lua: list sessions that have state, or messages that are not scheduled.
-- KEYS[1..16] as in state.lua, then those of shared_bodies.lua, if it is loaded before, and of
--             sessions.lua
-- KEYS[17] changed   hash  as in session_state_set.lua
-- KEYS[18] stateful  zset  sessions with state, all with score 0
-- ARGV[1..4] as in state.lua
-- ARGV[5] after  the session after which to begin, '' for the first
-- ARGV[6] max    how many at most, up to 1000
-- Returns {'ok', name of a session...} in the order of their keys' bytes | {'more'}: call again
local done = sweep()
wake()
if not done then return {'more'} end
local changed, stateful, after, reply = KEYS[taken + 1], KEYS[taken + 2], ARGV[5], {'ok'}

-- Lua compares strings by the server's locale, but zsets are ordered by bytes.
local function isBefore(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- heads has the first member after the session after: heads[0] of stateful, heads[i] of lists[i].
local lists, heads = {available, held, idleDeferred, paused}, {}
local function sessionAt(i) return heads[i] and (i == 0 and heads[i] or sub(heads[i], 1, -17)) end
local function advance(i)
  local from = after == '' and '-' or i == 0 and '(' .. after or '[' .. after .. '\1'
  heads[i] = call('ZRANGEBYLEX', lists[i] or stateful, from, '+', 'LIMIT', 0, 1)[1]
end
for i = 0, #lists do advance(i) end

for _ = 1, tonumber(ARGV[6]) do
  -- lowest is the first session that has messages or state, oldest the member of its oldest
  -- message; false if the session was found by its state.
  local lowest, oldest
  for i = 0, #lists do
    local sid = sessionAt(i)
    if sid and (not lowest or isBefore(sid, lowest)) then
      lowest, oldest = sid, i > 0 and heads[i]
    elseif sid and oldest and sid == lowest and sub(heads[i], -15) < sub(oldest, -15) then
      oldest = heads[i]
    end
  end
  if not lowest then break end
  if oldest then
    reply[#reply + 1] = call('HGET', sessionNames, sessionNumber(oldest))
  else
    local set = call('HGET', changed, lowest)
    reply[#reply + 1] = lowest .. sub(set, #keyOf(set) + 1)
  end
  after = lowest
  for i = 0, #lists do
    if sessionAt(i) == lowest then advance(i) end
  end
end
return reply
