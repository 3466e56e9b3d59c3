-- shared_bodies.lua: functions for bodies that several copies of a publication share. The loader puts it after
-- state.lua for the queues of subscriptions. The record of such a copy has no body.
-- The next KEYS after those of state.lua:
--   shares      hash  n -> number of the publication, for messages with a shared body
--   deadShares  hash  the same for dead letters
--   bodies      hash  number of the publication -> body, for all subscriptions
--   refs        hash  number of the publication -> how many copies use the body; the number after
--                     a d -> how many dead letters use the body
local shares, deadShares, bodies, refs = unpack(KEYS, taken + 1, taken + 4)
taken = taken + 4

-- release decrements the uses of bodies by messages of this queue.
local function release(publications)
  for _, p in ipairs(publications) do
    local own, other = p, 'd' .. p
    if not countsDeliveries then own, other = other, own end
    if call('HINCRBY', refs, own, -1) <= 0 then
      call('HDEL', refs, own)
      if call('HEXISTS', refs, other) == 0 then call('HDEL', bodies, p) end
    end
  end
end

shared = {
  drop = function(n)
    local p = call('HGET', shares, n)
    if not p then return end
    call('HDEL', shares, n)
    release({p})
  end,

  move = function(n, m)
    local p = call('HGET', shares, n)
    if not p then return end
    call('HDEL', shares, n)
    call('HSET', deadShares, m, p)
    call('HINCRBY', refs, 'd' .. p, 1)
    release({p})
  end,

  -- attach adds shared bodies as field b to entries that the script returns.
  attach = function(entries)
    if #entries == 0 or call('EXISTS', shares) == 0 then return end
    local numbers, sharing, publications = {}, {}, {}
    for i, entry in ipairs(entries) do numbers[i] = sub(entry[1], 3) end
    for i, p in ipairs(ask('HMGET', shares, numbers)) do
      if p then
        sharing[#sharing + 1] = entries[i][2]
        publications[#publications + 1] = p
      end
    end
    for i, body in ipairs(ask('HMGET', bodies, publications)) do
      if body then
        local fields = sharing[i]
        fields[#fields + 1] = 'b'
        fields[#fields + 1] = body
      end
    end
  end,

  -- complete is drop for many messages.
  complete = function(numbers)
    if call('EXISTS', shares) == 0 then return end
    local publications = {}
    for _, p in ipairs(ask('HMGET', shares, numbers)) do
      if p then publications[#publications + 1] = p end
    end
    many('HDEL', shares, numbers)
    release(publications)
  end,
}
