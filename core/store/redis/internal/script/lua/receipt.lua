-- receipt.lua: keep the answer of a call for ten seconds, so that a gateway that did not get the answer can send
-- the call again. The loader puts it after a script, and makes that script the function run.
-- KEYS[last]    receipt  string  <id><answer>
-- ARGV[last-1]  id       of the call
-- ARGV[last]    again    1: the call was sent before
local receipt, again, id = table.remove(KEYS), table.remove(ARGV), table.remove(ARGV)
if again == '1' then
  local kept = redis.call('GET', receipt)
  if kept and string.sub(kept, 1, #id) == id then return cmsgpack.unpack(string.sub(kept, #id + 1)) end
end
local answer = run()
if answer[1] == 'ok' then redis.call('SET', receipt, id .. cmsgpack.pack(answer), 'PX', 10000) end
return answer
