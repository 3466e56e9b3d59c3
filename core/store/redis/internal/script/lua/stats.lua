#!lua flags=allow-oom
-- stats.lua: sweep, then count messages by state, messages ever stored, and sessions.
-- KEYS[1..16] as in state.lua
-- ARGV[1..4] as in state.lua
-- Returns {'ok', ready, locked, deferred, scheduled, last number given, locked sessions,
--         free sessions with messages}
--         | {'more'}: call again
local done = sweep()
wake()
if not done then return {'more'} end
local set, due = call('ZCARD', deferred), call('ZCARD', scheduled)
local held = countLocks(locks, blocks) - call('ZCOUNT', deferred, '(0', '+inf')
local sessions = session and session.count() or {0, 0}
return {'ok', call('XLEN', stream) - held - set - due, held, set, due, tonumber(call('HGET', head, 's') or 0), sessions[1], sessions[2]}
