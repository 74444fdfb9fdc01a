-- KEYS: lock, fence, queue, waiters   ARGV: owner, limit of the server's clock
-- -> 1 if the hold was the owner's and is over, 0 if there was none
local lock, fence, queue, waiters = unpack(KEYS)
return release(lock, fence, queue, waiters, ARGV[1], ARGV[2])
