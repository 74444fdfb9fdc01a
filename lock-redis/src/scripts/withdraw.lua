-- KEYS: lock, fence, queue, waiters, withdrawn   ARGV: owner, limit of the server's clock
-- -> nothing
local owner, limit = unpack(ARGV)
-- C19: takes back the place in the queue, and the hold. The first write is one that a server out of memory
-- allows; then it also allows the rest.
local went_well, left = pcall(leave_queue, owner)
local problem = not went_well and left
if problem then left = 0 end
-- C19: a late request finds the mark, and is refused.
redis.call('SET', KEYS[5], '', 'PX', '@withdrawn_ms@')
local now = server_time()
local holds = holds_now(now)
-- C34: waiters behind the claim may fit now.
if left + remove(holds, owner) > 0 then pass_on(holds, now, limit) end
if problem then raise(problem) end
