-- receipt.lua: keep the answer of a call for ten seconds, so that a gateway that did not get the answer can send
-- the call again. The first request may also arrive after its repetition, from a proxy. The loader puts this file
-- after a script, and makes that script the function run.
-- KEYS[last]  receipt  string  <id><answer>
-- ARGV[last]  id       of the call
local receipt, id = table.remove(KEYS), table.remove(ARGV)
local kept = redis.call('GET', receipt)
if kept and string.sub(kept, 1, #id) == id then return cmsgpack.unpack(string.sub(kept, #id + 1)) end
local answer = run()
if answer[1] == 'ok' then redis.call('SET', receipt, id .. cmsgpack.pack(answer), 'PX', 10000) end
return answer
