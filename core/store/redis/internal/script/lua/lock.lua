#!lua flags=allow-oom
-- lock.lua: lock available messages: first those that were delivered before, then new ones.
-- KEYS[1..16] as in state.lua
-- ARGV[1..4] as in state.lua
-- ARGV[5]    until   deadline of the locks, ms
-- ARGV[6]    nonce   8 bytes, the secret half of the tokens
-- ARGV[7]    max     how many at most, up to 1000
-- ARGV[8]    inline  also return the entries, if at most inline messages are locked
-- ARGV[9]    gateway that asks
-- ARGV[10]   hand    1: hand over what the calls in front have stored, if no other gateway waits
-- ARGV[11]   least   from this number on, locks in a block of 128 become one member, 0: never
-- Returns {'ok', rest, next, numbers, counts, overrides, runs, entries} | {'more'}: call again
--   rest       1: there may be more than the messages returned: call again
--   next       if fewer than max were found, or all available ones are handed over, ms of the next
--              due time or 0; then the doorbell is armed
--   numbers    numbers delivered again, with their counts (or nil) and overrides (or nil)
--   runs       first, last of each run of new numbers
--   entries    of all these messages in that order, as XRANGE returns them; or none
local max, inline, hand = tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[10] == '1'
if call('EXISTS', stream) == 0 then return {'ok', 0, 0, {}, {}, {}, {}, {}} end
if not sweep() then
  wake()
  return {'more'}
end

-- Field w of head names the gateway that waits; * means several gateways.
local waits = call('HGET', head, 'w')
if hand and waits ~= ARGV[9] then
  ready = true
  wake()
  return {'ok', 1, 0, {}, {}, {}, {}, {}}
end

local deadline, nonce, least = ARGV[5], ARGV[6], tonumber(ARGV[11])
local spans, order = {}, {} -- numbers to lock, by the start of their block: first, last of each run

local function claim(first, last)
  while first <= last do
    local start = first - first % 128
    local span, till = spans[start], math.min(last, start + 127)
    if not span then
      span = {start = start, count = 0}
      spans[start], order[#order + 1] = span, span
    end
    span[#span + 1], span[#span + 2] = first, till
    span.count = span.count + till - first + 1
    first = till + 1
  end
end

local function lockClaimed()
  local members, whole = {}, {}
  local function add(n, secret)
    local member = format('%015d', n) .. secret
    members[#members + 1] = deadline
    members[#members + 1] = member
    return member
  end
  for _, span in ipairs(order) do
    local bits, inBlock = {0, 0, 0, 0}, least > 0 and span.count >= least
    for i = 1, #span, 2 do
      if inBlock then
        local first, last = span[i] - span.start, span[i + 1] - span.start
        for word = math.floor(first / 32), math.floor(last / 32) do
          local from, to = math.max(first - 32 * word, 0), math.min(last - 32 * word, 31)
          bits[word + 1] = bits[word + 1] + 2 ^ (to + 1) - 2 ^ from
        end
      else
        for n = span[i], span[i + 1] do add(n, nonce) end
      end
    end
    if inBlock then
      whole[#whole + 1] = add(span.start, nonce .. '*')
      whole[#whole + 1] = struct.pack('<I4I4I4I4', unpack(bits))
    end
  end
  many('ZADD', locks, members)
  many('HSET', blocks, whole)
  if #members > 0 then noteDeadline(deadline) end
end

local numbers = call('ZRANGE', again, 0, max - 1)
local tries, texts = {}, {}
if #numbers > 0 then
  call('ZREMRANGEBYRANK', again, 0, #numbers - 1)
  tries, texts = ask('HMGET', counts, numbers), ask('HMGET', overrides, numbers)
  for _, n in ipairs(numbers) do claim(tonumber(n), tonumber(n)) end
end

local state = call('HMGET', head, 's', 'c')
local top, cursor = tonumber(state[1] or 0), tonumber(state[2] or 0)
local found, runs, rest = #numbers, {}, 0
if found < max and cursor < top then
  local page, at, size, pages = {}, 1, math.max(max, 32), 0 -- the next holes, page by page
  repeat
    if at > #page and (pages == 0 or #page == size) then
      if pages * size >= 20000 then
        rest = 1
        break
      end
      page, at, pages = call('ZRANGEBYSCORE', holes, format('(%d', cursor), '+inf', 'LIMIT', 0, size), 1, pages + 1
    end
    local hole = tonumber(page[at] or top + 1)
    if hole == cursor + 1 then
      cursor, at = hole, at + 1
    else
      local last = math.min(cursor + max - found, hole - 1, top)
      runs[#runs + 1] = cursor + 1
      runs[#runs + 1] = last
      claim(cursor + 1, last)
      found, cursor = found + last - cursor, last
    end
  until found == max or cursor >= top
  call('HSET', head, 'c', format('%d', cursor))
  if pages > 1 or #page > 0 then call('ZREMRANGEBYSCORE', holes, '-inf', format('%d', cursor)) end
end
lockClaimed()

local next = 0
if hand and found == max and rest == 0 and (cursor < top or call('EXISTS', again) == 1) then
  call('HDEL', head, 'w')
  rest = 1
elseif rest == 0 and (hand or found < max) then
  local gateway = (not waits or waits == ARGV[9]) and ARGV[9] or '*'
  if waits ~= gateway then call('HSET', head, 'w', gateway) end
  next = nextDue(true)
  ready = false
end
wake()

local entries = {}
if found <= inline then
  for _, n in ipairs(numbers) do
    entries[#entries + 1] = call('XRANGE', stream, '0-' .. n, '0-' .. n)[1]
  end
  for i = 1, #runs, 2 do
    for _, entry in ipairs(call('XRANGE', stream, format('0-%d', runs[i]), format('0-%d', runs[i + 1]))) do
      entries[#entries + 1] = entry
    end
  end
end
if shared then shared.attach(entries) end
return {'ok', rest, next, numbers, tries, texts, runs, entries}
