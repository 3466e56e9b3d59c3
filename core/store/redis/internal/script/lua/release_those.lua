-- release_those.lua: a function that ends locks by their nonces. The loader puts it after sweep.lua.
-- releaseThose ends the locks for whose nonces isChosen returns true, without a failed delivery. It
-- returns false if the budget of state.lua is used up first.
local function releaseThose(isChosen)
  for _, member in ipairs(call('ZRANGE', locks, 0, -1)) do
    for _, lock in ipairs(isChosen(sub(member, 16, 23)) and singles(member) or {}) do
      if budget <= 0 then return false end
      budget = budget - 1
      local n = number(lock)
      unlock({lock})
      if history then history.add('u', n) end
      act('release', n)
    end
  end
  return true
end
