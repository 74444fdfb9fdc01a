-- Who waits for a lock, and how it is told of its grant. It is for scripts whose KEYS begin with these four.
local lock, fence, queue, waiters = unpack(KEYS)

-- The bounds: scripts.rs puts the numbers in. What commands are given is text: Lua takes long to write a number.
local UNCLAIMED_MS = '@unclaimed_ms@' -- a pushed grant lasts no longer until its holder renews it
local QUEUE_MS = '@queue_ms@' -- a queue outlasts the last look of a waiter for so long
local LIVENESS = @liveness_us@ -- a waiter that was silent for longer is taken for dead
local POLLED = '@polled@' -- stands for the channel of a waiter that looks for itself

-- What a waiter asks for: TTL, kind, channel, label; nil if it is dead.
local function wish(owner, now)
  local entry = redis.call('HGET', waiters, owner) or ''
  local seen, ttl_ms, kind, channel, label = string.match(entry, '^(%d+):(%d+)([^:]*):([^:]*):(.*)$')
  if not seen or now - seen > LIVENESS then return nil end
  if tonumber(ttl_ms) > tonumber(UNCLAIMED_MS) then ttl_ms = UNCLAIMED_MS end
  return ttl_ms, kind, channel, label
end

-- C28: tells a waiter of its grant: whether anybody listens. If nobody does, its connection is gone. Of several servers
-- each passes messages on to the others, but counts its own listeners. So a message that counts for nothing must not
-- be sent: a waiter elsewhere would believe it.
local function told(channel, message)
  if channel == POLLED then return true end
  if @several@ and redis.call('PUBSUB', 'NUMSUB', channel)[2] == 0 then return false end
  return redis.call('PUBLISH', channel, message) > 0
end

