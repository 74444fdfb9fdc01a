-- KEYS: lock, fence, queue, waiters, withdrawn
-- ARGV: owner, TTL in ms, label, channel ('' does not queue, POLLED hears nothing), limit of the
-- server's clock, kind (none if it is exclusive, '*' if it is shared, '*5/2' if it takes 2 of 5 permits)
-- -> {1, token, slots} granted | {0, ms left or -1, holder's label, position or -1, now} busy
-- | {2, how many permits the lock has} conflict
local me, ttl_ms, label, channel, limit, kind = unpack(ARGV)
kind = kind or ''

local value, found = read(lock)
if found then return not_a_lock(found) end
local now = server_time()
local holds = holds_in(value, now)
-- C19: a late request of a withdrawn claim takes nothing.
if redis.call('EXISTS', KEYS[5]) == 1 then
  return { err = 'WITHDRAWN the claim was withdrawn' }
end
if now > tonumber(limit) then
  return { err = 'CLOCK the clock of the server is more than a day ahead of the client' }
end
-- C16: a repeat finds its own grant, with the same token and slots.
for _, hold in ipairs(holds) do
  if hold.owner == me then
    last_at_least(lock, value, me .. ':' .. hold.token .. ':', ttl_ms)
    return { 1, hold.token, hold.slots }
  end
end

local is_next = serve(holds, now, me)
local permits = conflict(holds, kind)
if permits then
  leave_queue(me)
  serve(holds, now)
  save(holds)
  return { 2, permits }
end
local slots = is_next and fits(holds, kind)
if slots then
  local token = next_token(now)
  remember_token(token)
  leave_queue(me)
  add(holds, kind, me, token, ttl_ms, slots, label, now)
  -- C34: and those behind it who fit.
  serve(holds, now)
  save(holds)
  return { 1, token, slots }
end
save(holds)

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
  redis.call('HSET', waiters, me, integer(now) .. ':' .. ttl_ms .. kind .. ':' .. channel .. ':' .. label)
  redis.call('PEXPIRE', queue, 2 * LIVENESS / 1000)
  redis.call('PEXPIRE', waiters, 2 * LIVENESS / 1000)
end
-- C38: the first hold that ends may leave room.
local left = redis.call('PTTL', lock)
for _, hold in ipairs(holds) do
  if hold.expires then left = math.min(left, math.ceil(hold.expires - now / 1000)) end
end
return { 0, left, holds[1] and holds[1].label or '', position, integer(now) }
