-- KEYS: lock, fence, queue, waiters, withdrawn
-- ARGV: owner, TTL in ms, label, channel ('' does not queue, POLLED hears nothing), limit of the
-- server's clock
-- -> token granted | {ms left or -1, holder's label, position or -1, now} busy
local lock, fence, queue, waiters, withdrawn = unpack(KEYS)
local me, ttl_ms, label, channel, limit = unpack(ARGV)

local value, kind = read(lock)
if kind then return not_a_lock(kind) end
local holder, held_token, holder_label = parse(value)
local now = server_time()
-- C19: a late request of a withdrawn claim takes nothing.
if redis.call('EXISTS', withdrawn) == 1 then
  return { err = 'WITHDRAWN the claim was withdrawn' }
end
if now > tonumber(limit) then
  return { err = 'CLOCK the clock of the server is more than a day ahead of the client' }
end
-- C16: a repeat finds its own grant, with the same token.
if holder == me then
  last_at_least(lock, ttl_ms)
  return held_token
end

if not value then
  local winner = hand_over(lock, fence, queue, waiters, now, me)
  if not winner or winner == me then
    local token = next_token(fence, now)
    grant(lock, fence, me, token, ttl_ms, label, now)
    return token
  end
  holder, held_token, holder_label = parse(redis.call('GET', lock))
end

local position = -1
if channel ~= '' then
  local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
  -- Fails here, before the first write, if that key is of another type.
  redis.call('HLEN', waiters)
  position = redis.call('ZRANK', queue, me)
  if not position then
    -- After the last one, even if the clock stepped back.
    redis.call('ZADD', queue, integer(math.max(now, (last or 0) + 1)), me)
    position = redis.call('ZCARD', queue) - 1
  end
  redis.call('HSET', waiters, me, integer(now) .. ':' .. ttl_ms .. ':' .. channel .. ':' .. label)
  redis.call('PEXPIRE', queue, 2 * LIVENESS / 1000)
  redis.call('PEXPIRE', waiters, 2 * LIVENESS / 1000)
end
return { redis.call('PTTL', lock), holder_label or '', position, integer(now) }
