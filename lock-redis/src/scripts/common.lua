-- What several scripts share. A lock key holds "owner:token:since:label", where "since" is the server's
-- time of the grant in ms since 1970. A value without it is an earlier version's, and any other value is a
-- foreign client's.
-- Read and check before the first write: Redis keeps the writes of a script that fails midway. Then write
-- the counter, and the lock key last. Times are the server's, in microseconds.

-- The bounds: scripts.rs puts the numbers in.
local LIVENESS = @liveness_us@ -- a waiter that was silent for longer is taken for dead
local UNCLAIMED_MS = @unclaimed_ms@ -- a pushed grant lasts no longer until its holder renews it
local COUNTER_MS = @counter_ms@ -- a token counter outlasts the last grant for so long
local MAX_TOKEN = @max_token@
local POLLED = '@polled@' -- stands for the channel of a waiter that looks for itself

local function server_time()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function integer(number)
  return string.format('%.0f', number)
end

-- "owner:token:since:label" -> owner, token, label; nothing for the value of a foreign client
local function parse(value)
  local owner, token, rest = string.match(value or '', '^(%x+):(%d+):(.*)$')
  if owner and #owner == 32 then
    return owner, token, string.match(rest, '^%d+:(.*)$') or rest
  end
end

-- The value of a lock's key, false if there is none; or false and the type of a key that is no lock.
local function read(lock)
  local value = redis.pcall('GET', lock)
  if type(value) ~= 'table' then return value end
  -- C49: no client of locks has written a key of another type. Any other error ends the script.
  if not string.find(value.err, 'WRONGTYPE', 1, true) then return redis.call('GET', lock) end
  return false, redis.pcall('TYPE', lock).ok or 'unknown'
end

-- What is answered where a lock has to be.
local function not_a_lock(kind)
  return { err = 'NOTALOCK ' .. kind }
end

-- C22: one more than the last token, or the time if the counter is missing. So tokens grow when the clock
-- steps back. They also grow when the counter is lost: it counts grants, and the time is ahead of it by then,
-- even if the clock stepped back by a little.
local function next_token(fence, now)
  local last = redis.call('GET', fence)
  if not last then return integer(now) end
  local counter = string.match(last, '^%d+$') and tonumber(last)
  if not counter or counter >= MAX_TOKEN then
    -- A plain text, since Redis 6 knows no other errors; the dash marks the code.
    error('-COUNTER the token counter ' .. fence .. ' holds no token')
  end
  return integer(counter + 1)
end

-- C10: an extension never shortens a TTL, so that requests may overtake each other.
local function last_at_least(lock, ttl_ms)
  if redis.call('PTTL', lock) < tonumber(ttl_ms) then redis.call('PEXPIRE', lock, ttl_ms) end
end

-- Grants a lock whose key does not exist.
local function grant(lock, fence, owner, token, ttl_ms, label, now)
  -- C45: the time of the grant stays with the hold.
  local value = table.concat({ owner, token, integer(math.floor(now / 1000)), label }, ':')
  redis.call('SET', fence, token, 'PX', COUNTER_MS)
  -- C29: as any client of Redis takes a lock.
  redis.call('SET', lock, value, 'NX', 'PX', ttl_ms)
end

-- C27: takes the first waiter that is alive out of the queue. Unless it is `me`, it is granted the lock,
-- in place of the holder if there is one, and told so. Returns its owner, or nil if nobody waits.
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
      redis.call('DEL', lock)
      grant(lock, fence, owner, token, ttl_ms, label, now)
      local message = owner .. ':' .. token .. ':' .. ttl_ms .. ':' .. integer(now)
      if channel == POLLED or redis.call('PUBLISH', channel, message) > 0 then return owner end
      -- C28: nobody listens, so the waiter's connection is gone, and the next waiter is served.
      redis.call('DEL', lock)
    end
  end
end

-- Takes the lock from its holder, for the next waiter if there is one. When the clock is beyond `limit`
-- it must not make a token; then the lock is free, and the waiters find that by themselves.
local function pass_on(lock, fence, queue, waiters, limit)
  local now = server_time()
  if now > tonumber(limit) or not hand_over(lock, fence, queue, waiters, now) then
    redis.call('DEL', lock)
  end
end

-- Ends the hold of `owner`, if `owner` holds the lock. A key that is no lock is no hold either.
local function release(lock, fence, queue, waiters, owner, limit)
  if parse((read(lock))) ~= owner then return 0 end
  pass_on(lock, fence, queue, waiters, limit)
  return 1
end
