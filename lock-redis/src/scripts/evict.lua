-- KEYS: lock, fence, queue, waiters   ARGV: limit of the server's clock
-- -> {value, ms left or -1} of the hold that is over, nil if there was none
local lock, fence, queue, waiters = unpack(KEYS)
local value, left = redis.call('GET', lock), redis.call('PTTL', lock)
if not value then return nil end
pass_on(lock, fence, queue, waiters, ARGV[1])
return { value, left }
