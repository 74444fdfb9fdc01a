-- What the granting scripts share. A lock key holds "owner:token:label"; any other value is a
-- foreign client's. Read and check before the first write: Redis keeps the writes of a script that
-- fails midway. Times are the server's, in microseconds.
local LIVENESS = 3000000   -- a waiter that was silent for longer is taken for dead
local UNCLAIMED_MS = 3000  -- a pushed grant lasts no longer until its holder renews it
local POLLED = 'poll'      -- in place of the channel of a waiter that looks for itself
local COUNTER_MS = 604800000
local MAX_TOKEN = 9007199254740991

local function server_time()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function integer(number)
  return string.format('%.0f', number)
end

local function parse(value)
  local owner, token, label = string.match(value or '', '^(%x+):(%d+):(.*)$')
  if owner and #owner == 32 then return owner, token, label end
end

-- One more than the last token, or the time: so tokens grow through a clock that steps back, and
-- through the loss of the counter (C22).
local function next_token(fence, now)
  local last = redis.call('GET', fence)
  if not last then return integer(now) end
  local counter = string.match(last, '^%d+$') and tonumber(last)
  if not counter or counter >= MAX_TOKEN then
    -- A plain text, since Redis 6 knows no other errors; the dash marks the code.
    error('-COUNTER the token counter ' .. fence .. ' holds no token')
  end
  return integer(math.max(counter + 1, now))
end

-- C10: never shortened, so that requests may overtake each other.
local function last_at_least(lock, ttl_ms)
  if redis.call('PTTL', lock) < tonumber(ttl_ms) then redis.call('PEXPIRE', lock, ttl_ms) end
end

local function grant(lock, fence, owner, token, ttl_ms, label)
  redis.call('SET', fence, token, 'PX', COUNTER_MS)
  redis.call('SET', lock, owner .. ':' .. token .. ':' .. label, 'PX', ttl_ms)
end

-- Grants the free lock to the first waiter that is alive, and tells it unless it is `me`. Returns
-- its owner, or nil if nobody waits (C27).
local function hand_over(lock, fence, queue, waiters, now, me)
  while true do
    local owner = redis.call('ZRANGE', queue, 0, 0)[1]
    if not owner then return nil end
    local token = next_token(fence, now)
    local entry = redis.call('HGET', waiters, owner) or ''
    redis.call('ZREM', queue, owner)
    redis.call('HDEL', waiters, owner)
    local seen, ttl_ms, channel, label = string.match(entry, '^(%d+):(%d+):([^:]*):(.*)$')
    if owner == me then return owner end
    if seen and now - seen <= LIVENESS then
      ttl_ms = math.min(ttl_ms, UNCLAIMED_MS)
      grant(lock, fence, owner, token, ttl_ms, label)
      local message = owner .. ':' .. token .. ':' .. ttl_ms .. ':' .. integer(now)
      -- C28: nobody listens: its connection is gone, so the next one is served.
      if channel == POLLED or redis.call('PUBLISH', channel, message) > 0 then return owner end
    end
  end
end

-- Takes the lock from its holder, for the next waiter if there is one. Beyond `limit` the clock is
-- not to be trusted with a token, and the waiters see for themselves.
local function pass_on(lock, fence, queue, waiters, limit)
  local now = server_time()
  if now > tonumber(limit) or not hand_over(lock, fence, queue, waiters, now) then
    redis.call('DEL', lock)
  end
end

-- Ends the hold of `owner`, if it is its own.
local function release(lock, fence, queue, waiters, owner, limit)
  if parse(redis.call('GET', lock)) ~= owner then return 0 end
  pass_on(lock, fence, queue, waiters, limit)
  return 1
end
