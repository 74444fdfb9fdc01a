-- KEYS: lock, waiting, next   ARGV: first 8 digits of the owner, or '' for any owner
-- -> {value, ms left or -1, now in µs, ''} of the hold that it ended; nil if there was none. No tokens are reserved.
local lock, waiting, next = unpack(KEYS)
local value, found = read(lock)
if found then return not_a_lock(found) end
if not value or string.sub(value, 1, #ARGV[1]) ~= ARGV[1] then return nil end
local left, time = redis.call('PTTL', lock), redis.call('TIME')
redis.call('DEL', lock)
raise(pcall(wake, waiting, next))
return { value, left, integer(time[1] * 1000000 + time[2]), '' }
