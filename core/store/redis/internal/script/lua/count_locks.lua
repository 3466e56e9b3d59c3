-- count_locks.lua: a function that counts locks. The loader puts it before scripts that need it.
local ones = {[0] = 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4} -- number of bits set in four bits

-- countLocks counts the locks in locks and blocks of state.lua.
local function countLocks(locks, blocks)
  local count = redis.call('ZCARD', locks)
  for _, bits in ipairs(redis.call('HVALS', blocks)) do
    count = count - 1
    for i = 1, #bits do
      local byte = string.byte(bits, i)
      count = count + ones[byte % 16] + ones[math.floor(byte / 16)]
    end
  end
  return count
end
