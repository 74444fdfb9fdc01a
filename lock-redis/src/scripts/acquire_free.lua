-- The common case, before anything else is defined: the lock is free, nobody waits for it, and its counter
-- is there. KEYS, ARGV and answers are those of acquire.lua, which does the rest.
if redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[5]) == 0 then
local fence, limit = KEYS[2], ARGV[5]
