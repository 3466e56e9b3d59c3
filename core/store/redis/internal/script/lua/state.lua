-- state.lua: keys and functions of all scripts on a partition. The loader puts it after their #!lua
-- line. After it come sweep.lua, and shared_bodies.lua for queues of subscriptions,
-- sessions.lua for queues with sessions, and history.lua for entities with a history.
-- KEYS[1]  stream     stream  the messages, id 0-<n>; field d is the record. Optional fields: t
--                             time to live (ms), e enqueued time (ms) if it differs from the
--                             record's, o the first number (of a topic's publication, otherwise
--                             the number of a dead letter in its queue; the first o counts). In a
--                             dead-letter queue also c delivery count, p overrides, r reason (m or
--                             x), z when the message was dead-lettered (ms). Returned entries may
--                             have b, a shared body
-- KEYS[2]  head       hash    s last number given; c last number locked (cursor); w is set while a
--                             gateway waits for the doorbell (lock.lua says which); a is set once
--                             the holder of a session has waited; d the earliest time (ms) at which
--                             a sweep may find something: each script that adds a deadline lowers
--                             d, a sweep sets it, and without it the next script sweeps. In a
--                             topic's head, v is the version of its subscriptions, and c equals s;
--                             messages that become due go to again, behind those that were
--                             delivered. u has the first number and the count of messages that
--                             the next sweep removes, because their call was repeated before it ran
-- KEYS[3]  locks      zset    <n, 15 digits><8-byte nonce> by deadline (ms). A message that is
--                             delayed after a failed delivery has no nonce; one that was released
--                             with a delay has an r instead. A * behind the nonce marks a block of
--                             locks of one call; its n is the multiple of 128 at which it starts
-- KEYS[4]  again      zset    numbers to deliver again, by number; in a topic also those that became
--                             due, by neverDelivered + number
-- KEYS[5]  counts     hash    n -> failed deliveries and deferrals, if there were any
-- KEYS[6]  overrides  hash    n -> properties that settlements set: length-prefixed maps, oldest
--                             first
-- KEYS[7]  deferred   zset    numbers of deferred messages by lock deadline, 0 while not locked
-- KEYS[8]  scheduled  zset    <n, 15 digits> by due time (ms); an r behind it marks a message that
--                             is reserved for a transaction, by the end of the reservation
-- KEYS[9]  holes      zset    numbers behind the cursor that must not be delivered, by number
-- KEYS[10] expiry     zset    <n, 15 digits> by expiry (ms)
-- KEYS[11] overdue    set     numbers of messages that expired while locked or deferred
-- KEYS[12] bell       channel sharded doorbell of the partition
-- KEYS[13] dead       stream  the dead-letter queue's messages
-- KEYS[14] deadHead   hash    the dead-letter queue's head
-- KEYS[15] deadBell   channel the dead-letter queue's doorbell
-- KEYS[16] blocks     hash    block of locks -> 16 bytes: the lowest bit of the first is for its first number,
--                             the highest of the last for its last one; set while that lock stands
-- ARGV[1]  now            ms, from the caller's clock
-- ARGV[2]  sub            0: a queue, 2: its transfer queue (nothing expires), 1 and 3: the dead
--                         letters of these (delivery counts do not rise either)
-- ARGV[3]  maxDeliveries  failed deliveries after which a message is dead-lettered, 0: never
-- ARGV[4]  expired        drop | dead-letter; history.lua reads the rest
local stream, head, locks, again, counts, overrides, deferred, scheduled, holes, expiry, overdue, bell, dead, deadHead, deadBell, blocks =
  unpack(KEYS, 1, 16)
local now, canExpire, countsDeliveries = tonumber(ARGV[1]), ARGV[2] == '0', ARGV[2] == '0' or ARGV[2] == '2'
local maxDeliveries, dropExpired = tonumber(ARGV[3]), string.sub(ARGV[4], 1, 4) == 'drop'
local call, format, sub = redis.call, string.format, string.sub

local neverDelivered = 2 ^ 52 -- numbers are smaller

local taken = 16 -- number of KEYS that have names
local shared, session, history -- functions of shared_bodies.lua, sessions.lua and history.lua, if loaded

local ready, deadLettered = false, false -- a message, or a dead letter, became available
local quiet = false -- the doorbells do not ring
local budget = 500 -- how much one call may sweep; moving a body costs more

local function many(command, key, items)
  for i = 1, #items, 1000 do
    call(command, key, unpack(items, i, math.min(i + 999, #items)))
  end
end

-- ask is many for commands that return one value per item.
local function ask(command, key, items)
  local all = {}
  for i = 1, #items, 1000 do
    local part = call(command, key, unpack(items, i, math.min(i + 999, #items)))
    for j = 1, #part do all[i + j - 1] = part[j] end
  end
  return all
end

local function pad(n) return format('%015d', n) end

-- number returns the n of a member of locks, scheduled or expiry.
local function number(member) return format('%d', tonumber(sub(member, 1, 15))) end

local function wake()
  if quiet then return end
  if ready and call('HDEL', head, 'w') == 1 then call('SPUBLISH', bell, '') end
  if deadLettered and call('HDEL', deadHead, 'w') == 1 then call('SPUBLISH', deadBell, '') end
end
