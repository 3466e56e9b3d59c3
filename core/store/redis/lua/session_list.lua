#!lua flags=allow-oom
-- session_list.lua: list sessions that have state, or messages that are not scheduled.
-- KEYS[1..15] as in state.lua, then those of shared_bodies.lua, if it is in front, and of
--             sessions.lua
-- KEYS[16] changed   hash  as in session_state_set.lua
-- KEYS[17] stateful  zset  sessions with state, all with score 0
-- ARGV[1..4] as in state.lua
-- ARGV[5] after  the session after which to begin, '' for the first
-- ARGV[6] max    how many at most, up to 1000
-- Returns {'ok', name of a session...} in the order of their keys' bytes | {'more'}: call again
local done = sweep()
wake()
if not done then return {'more'} end
local changed, stateful, after, reply = KEYS[taken + 1], KEYS[taken + 2], ARGV[5], {'ok'}

-- Lua compares strings by the server's locale, zsets by their bytes.
local function isBefore(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- following returns the first session after after that has messages or state, and the member of its
-- oldest message, nil if it was found by its state.
local function following()
  local lowest, oldest = call('ZRANGEBYLEX', stateful, after == '' and '-' or '(' .. after, '+', 'LIMIT', 0, 1)[1], nil
  for _, key in ipairs({available, held, idleDeferred, paused}) do
    local member = call('ZRANGEBYLEX', key, after == '' and '-' or '[' .. after .. '\1', '+', 'LIMIT', 0, 1)[1]
    local sid = member and sub(member, 1, -17)
    if sid and (not lowest or isBefore(sid, lowest)) then
      lowest, oldest = sid, member
    elseif oldest and sid == lowest and sub(member, -15) < sub(oldest, -15) then
      oldest = member
    end
  end
  return lowest, oldest
end

for _ = 1, tonumber(ARGV[6]) do
  local oldest
  after, oldest = following()
  if not after then break end
  if oldest then
    reply[#reply + 1] = call('HGET', sessionNames, sessionNumber(oldest))
  else
    local set = call('HGET', changed, after)
    reply[#reply + 1] = after .. sub(set, #keyOf(set) + 1)
  end
end
return reply
