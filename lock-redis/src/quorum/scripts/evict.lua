-- KEYS: lock, waiting, next   ARGV: the value of a foreign client's key
-- -> 1 if this ended that hold, 0 if the key has changed
local lock, waiting, next = unpack(KEYS)
if read(lock) ~= ARGV[1] then return 0 end
redis.call('DEL', lock)
raise(pcall(wake, waiting, next))
return 1
