-- history.lua: functions that write events of messages. If the entity has a history, the loader
-- puts this file directly before a script, after the other files. ARGV[4] of state.lua then has two
-- more numbers: how long events are kept (ms), and how many are kept.
-- The next KEYS:
--   events  stream  the events, id <ms>-<n>: the store's clock, or the last event's if that is
--                   ahead. Field e holds kind, sub-queue, number, other number, failures, until
--                   (ms) and reason, with blanks between. If the message's id is known, field i
--                   holds the kind of the id in one byte, and the id. Events that the broker has
--                   noted have field n instead
local events = unpack(KEYS, taken + 1, taken + 1)
taken = taken + 1
local keepFor, keepMost = string.match(ARGV[4], ' (%d+) (%d+)$')
local begun = {}

-- idOf returns the message's id in a record (package record), or nil. It reads only the start,
-- because cmsgpack cannot read bytes.
local function idOf(record)
  local at, _, _, fields = cmsgpack.unpack_limit(record, 3)
  if fields % 2 == 0 then return nil end
  local _, kind, raw = cmsgpack.unpack_limit(record, 2, at)
  return string.char(kind) .. raw
end

-- write adds an entry to a history, and drops entries beyond the bounds.
local function write(key, ...)
  local entry = redis.pcall('XADD', key, 'MAXLEN', '~', keepMost, ARGV[1] .. '-*', ...)
  if type(entry) == 'table' then -- the last event is from a clock that is ahead
    local last = call('XREVRANGE', key, '+', '-', 'COUNT', 1)[1]
    call('XADD', key, 'MAXLEN', '~', keepMost, string.match(last[1], '^%d+') .. '-*', ...)
  end
  if begun[key] then return end
  begun[key] = true
  call('XTRIM', key, 'MINID', '~', format('%.0f', now - keepFor))
  call('PEXPIRE', key, keepFor)
end

history = {
  write = function(name, value) write(events, name, value) end,

  add = function(kind, n, also)
    also = also or {}
    local id = also.record and idOf(also.record)
    local event = string.format('%s %s %s %s %s %s %s', kind, also.sub or ARGV[2], n, also.other or 0, also.failures or 0,
      also['until'] or 0, also.reason or '')
    if id then
      write(also.key or events, 'e', event, 'i', id)
    else
      write(also.key or events, 'e', event)
    end
  end,
}
