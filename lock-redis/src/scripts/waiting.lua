-- Waiters of a lock, and the telling of their grants. It is for scripts whose KEYS begin with these four.
local lock, fence, queue, waiters = unpack(KEYS)

-- The bounds: scripts.rs puts the numbers in. What commands are given is text: Lua takes long to write a number.
local UNCLAIMED_MS = '@unclaimed_ms@' -- a pushed grant lasts no longer until its holder renews it
local QUEUE_MS = '@queue_ms@' -- a queue outlasts the last look of a waiter for so long
local LIVENESS = @liveness_us@ -- a waiter that was silent for longer is taken for dead
local POLLED = '@polled@' -- stands for the channel of a waiter that looks for itself
local LATER = '' -- stands for the TTL of a waiter whose entry a later version has written

-- Returns the wish of a waiter: TTL, kind, channel, label; nil if it is dead, LATER if this version cannot tell. In
-- every version an entry begins with the time of its waiter's last look.
local function wish(owner, now)
  local entry = redis.call('HGET', waiters, owner) or ''
  local seen, rest = string.match(entry, '^(%d+):(.*)$')
  if not seen or now - seen > LIVENESS then return nil end
  local ttl_ms, kind, channel, label = string.match(rest, '^(%d+)(%*?%d*/?%d*):([^:]*):(.*)$')
  if not ttl_ms then return LATER end
  if tonumber(ttl_ms) > tonumber(UNCLAIMED_MS) then ttl_ms = UNCLAIMED_MS end
  return ttl_ms, kind, channel, label
end

-- C28: tells a waiter of its grant: whether anybody listens. If nobody does, its connection is gone. A server passes
-- messages on to its replicas, and to all servers of its cluster, but counts its own listeners. So a message that counts
-- for nothing must not be sent: a waiter that listens elsewhere would believe it. An empty message is for nobody, and
-- takes no right but that to publish. In a cluster it would go to all servers.
local function told(channel, message)
  if channel == POLLED then return true end
  local listeners = @spread@ and redis.call('PUBSUB', 'NUMSUB', channel)[2] or redis.call('PUBLISH', channel, '')
  return listeners > 0 and redis.call('PUBLISH', channel, message) > 0
end

