-- Waiters of a lock, and the messages about their grants. For scripts whose KEYS begin with these four.
local lock, fence, queue, waiters = unpack(KEYS)

-- The bounds; scripts.rs fills in the numbers. Arguments of commands are text, since Lua formats numbers slowly.
local UNCLAIMED_MS = '@unclaimed_ms@' -- longest life of a pushed grant until its holder renews it
local QUEUE_MS = '@queue_ms@' -- lifetime of a queue after the last look of a waiter
local LIVENESS = @liveness_us@ -- a waiter that was silent for longer counts as dead
local POLLED = '@polled@' -- in place of the channel of a waiter that polls
local LATER = '' -- in place of the TTL of a waiter whose entry a later version wrote

-- Returns a waiter's wish: TTL, kind, channel, label; nil if it is dead, LATER if this version cannot read it. In
-- every version an entry begins with the time of the waiter's last look.
--
-- A user of the server with fewer rights than ours may have written the entry. So it is published only to a channel of
-- clients, and has a kind of a length that keeps the search for slots short.
local function wish(owner, now)
  local entry = redis.call('HGET', waiters, owner) or ''
  local seen, rest = string.match(entry, '^(%d+):(.*)$')
  if not seen or now - seen > LIVENESS or #owner ~= 32 or string.find(owner, '%X') then return nil end
  local ttl_ms, kind, channel, label = string.match(rest, '^(%d+)(%*?%d*/?%d*):([^:]*):(.*)$')
  local is_ours = ttl_ms and #kind <= 12 and (channel == POLLED or string.find(channel, '^leasehold%-%x+$'))
  if not is_ours then return LATER end
  if tonumber(ttl_ms) > tonumber(UNCLAIMED_MS) then ttl_ms = UNCLAIMED_MS end
  return ttl_ms, kind, channel, label
end

-- C28: sends a waiter the message about its grant; returns true if anybody listens. If nobody does, the waiter's
-- connection is gone. A server forwards messages to its replicas and to the other servers of its cluster, but
-- counts only its own listeners. So the grant must not be sent before a listener is counted: a waiter that
-- listens elsewhere would believe it. The empty message reaches no waiter, and needs no right except to publish.
-- In a cluster it would go to all servers, so the listeners are counted by PUBSUB there.
local function told(channel, message)
  if channel == POLLED then return true end
  local listeners = @spread@ and redis.call('PUBSUB', 'NUMSUB', channel)[2] or redis.call('PUBLISH', channel, '')
  return listeners > 0 and redis.call('PUBLISH', channel, message) > 0
end

