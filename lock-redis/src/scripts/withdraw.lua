-- KEYS: lock, fence, queue, waiters, withdrawn   ARGV: owner, limit of the server's clock, '1' if a request
-- of the claim may arrive late, else '0'
-- -> nothing
local owner, limit, may_come_late = unpack(ARGV)
-- C19: takes back the place in the queue, and the hold. The first write is one that a server out of memory
-- allows; then it also allows the rest.
local went_well, left = pcall(leave_queue, owner)
local problem = not went_well and left
if problem then left = 0 end
-- C19: a late request finds the mark, and is refused.
if may_come_late == '1' then redis.call('SET', KEYS[5], '', 'PX', '@withdrawn_ms@') end
local now = server_time()
local holds = holds_now(now)
-- C34: waiters behind the claim may fit now.
if left + remove(holds, owner) > 0 then pass_on(holds, now, limit) end
if problem then raise(problem) end
