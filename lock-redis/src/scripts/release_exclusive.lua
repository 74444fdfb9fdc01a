-- The common case of a lock with waiters, before more is defined: the first waiter also wants an exclusive hold.
-- `held`, `owner` and `place` come from release_unwanted.lua.
--
-- Notifies the first waiter. Returns the new value of the lock and its TTL; false if nobody listens; nil in any
-- other case.
local function tell_next()
  local now = tonumber(now_text)
  local ttl_ms, kind, channel, label = wish(owner, now)
  local is_common = kind == '' and now <= tonumber(ARGV[2])
  local token = is_common and counted(fence, ARGV[2])
  if not token then return nil end
  redis.call('HDEL', waiters, owner)
  -- P2: the time of the grant is its token, which is never below that time.
  if not told(channel, owner .. ':' .. token .. ':' .. ttl_ms .. ':' .. token) then return false end
  -- C45: in ms since 1970.
  return owner .. ':' .. token .. ':' .. string.sub(now_text, 1, -4) .. ':' .. label, ttl_ms
end

local problem
if owner then
  local went_well, value, ttl_ms = pcall(tell_next)
  if went_well and value then
    redis.call('SET', lock, value, 'PX', ttl_ms)
    return 1
  end
  if not went_well then problem, value = value, nil end
  if value == nil then
    redis.call('ZADD', queue, place, owner)
    redis.call('PEXPIRE', queue, QUEUE_MS)
  end
end

