-- KEYS: lock, fence, queue, waiters, withdrawn   ARGV: owner, limit of the server's clock, '1' if a request
-- of the claim may come late, else '0'
-- -> 1 if the claim held the lock, else 0
local lock, fence, queue, waiters, withdrawn = unpack(KEYS)
local owner, limit, may_come_late = unpack(ARGV)
-- C19: takes back the place in the queue, and the hold. What a server out of memory allows comes first:
-- after the first write it allows the rest.
redis.call('ZREM', queue, owner)
redis.call('HDEL', waiters, owner)
local released = release(lock, fence, queue, waiters, owner, limit)
-- C19: a request that comes late finds the mark, and is refused.
if may_come_late == '1' then redis.call('SET', withdrawn, '', 'PX', @withdrawn_ms@) end
return released
