-- KEYS: lock, fence, queue, waiters, withdrawn   ARGV: owner, limit of the server's clock
-- C19: takes back a grant, a place in the queue, and a request that is still on its way.
local WITHDRAWN_MS = 30000
local lock, fence, queue, waiters, withdrawn = unpack(KEYS)
-- First what a server out of memory allows; after the first write it allows the rest.
redis.call('ZREM', queue, ARGV[1])
redis.call('HDEL', waiters, ARGV[1])
local released = release(lock, fence, queue, waiters, ARGV[1], ARGV[2])
redis.call('SET', withdrawn, '', 'PX', WITHDRAWN_MS)
return released
