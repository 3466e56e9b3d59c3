#!lua flags=allow-oom
-- sweep_only.lua: end expired locks, activate scheduled messages, remove expired messages.
-- KEYS[1..16] as in state.lua
-- ARGV[1..4]  as in state.lua
-- ARGV[5] ask  1: also return the next due time
-- Before commands that store messages, the last key and ARGV[6] are a receipt and an id as in
-- receipt.lua, and ARGV[7] is the number of messages.
-- Returns {'ok', ms when the next is due or 0} | {'more'}: call again
local done = sweep()
wake()
keepReceipt(call('HGET', head, 's'))
if not done then return {'more'} end
return {'ok', ARGV[5] == '1' and nextDue() or 0}
