-- KEYS: lock, fence, queue, waiters, withdrawn   ARGV: owner, limit of the server's clock
-- Takes back a grant, a place in the queue, and a request that is still on its way.
local WITHDRAWN_MS = 30000
local lock, fence, queue, waiters, withdrawn = unpack(KEYS)
redis.call('SET', withdrawn, '', 'PX', WITHDRAWN_MS)
redis.call('ZREM', queue, ARGV[1])
redis.call('HDEL', waiters, ARGV[1])
return release(lock, fence, queue, waiters, ARGV[1], ARGV[2])
