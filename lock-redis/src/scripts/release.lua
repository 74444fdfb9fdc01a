-- KEYS: lock, fence, queue, waiters   ARGV: owner, limit of the server's clock
-- `held` was read by release_unwanted.lua, and `problem` is an error of release_exclusive.lua.
-- -> 1 if this ended the owner's hold, 0 if the owner did not hold the lock
local released = release(ARGV[1], ARGV[2], type(held) == 'string' and held)
if problem then raise(problem) end
return released
