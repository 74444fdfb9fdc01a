-- KEYS: lock, fence, queue, waiters   ARGV: owner, limit of the server's clock
-- `held` is what release_unwanted.lua has read, and `problem` what release_exclusive.lua has met.
-- -> 1 if the owner held the lock, and does no more; 0 if it did not
local released = release(ARGV[1], ARGV[2], type(held) == 'string' and held)
if problem then raise(problem) end
return released
