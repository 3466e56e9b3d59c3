#!lua
-- append_lock.lua: store messages, then lock some for a receiver of the calling gateway. The scripts
-- append and lock are loaded before, each as a function of its ARGV.
-- KEYS[1..18] as in append.lua
-- ARGV[1..11] as in lock.lua
-- ARGV[12]    window   as ARGV[5] of append.lua
-- ARGV[13]    keyLife  as ARGV[6] of append.lua
-- ARGV[14..]  for each message as in append.lua: id; key; due; ttl; session; record
-- Returns {'ok', what append.lua returns, what lock.lua returns} | {'not_found'} | {'more'}: call
--         again
local args = {ARGV[1], ARGV[2], ARGV[3], ARGV[4]}
for i = 12, #ARGV do args[i - 7] = ARGV[i] end
quiet = true -- lock.lua decides whether a doorbell must ring
local appended = append(args)
quiet = false
if appended[1] ~= 'ok' then
  wake()
  return appended
end
return {'ok', appended, lock(ARGV)}
