#!lua
-- history_annotate.lua: add the broker's events to the history of a queue. history.lua describes the
-- key.
-- KEYS[1..16] as in state.lua
-- ARGV[1..4] as in state.lua
-- ARGV[5..]  annotations, each encoded as history.go does
-- Returns {'ok'} | {'more'}: call again
if not sweep() then
  wake()
  return {'more'}
end
if call('EXISTS', stream) == 1 then
  for i = 5, #ARGV do history.write('n', ARGV[i]) end
end
wake()
return {'ok'}
