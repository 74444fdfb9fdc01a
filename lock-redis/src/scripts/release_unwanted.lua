-- The common case, before anything else is defined: the owner holds the lock, and nobody waits for it.
-- KEYS, ARGV and answers are those of release.lua, which does the rest.
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'string' and string.find(held, ARGV[1], 1, true) == 1
    and redis.call('EXISTS', KEYS[3]) == 0 then
  redis.call('DEL', KEYS[1])
  return 1
end

