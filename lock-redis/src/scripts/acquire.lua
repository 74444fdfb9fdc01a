-- KEYS: lock, fence, queue, waiters, withdrawn
-- ARGV: owner, TTL in ms, label, channel ('' does not queue, POLLED hears nothing), limit of the
-- server's clock, kind (none if it is exclusive, '*' if it is shared, '*5/2' if it takes 2 of 5 permits)
-- -> token, or {token, slots} if it has slots: granted
-- | {ms left or -1, holder's label, position or -1, now}: busy
-- | {how many permits the lock has}: conflict
local me, ttl_ms, label, channel, limit, kind = unpack(ARGV)
kind = kind or ''

local function granted(token, slots)
  return slots ~= '' and { token, slots } or token
end

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
    return granted(hold.token, hold.slots)
  end
end

local is_next = serve(holds, now, me)
local permits = conflict(holds, kind)
if permits then
  leave_queue(me)
  serve(holds, now)
  save(holds)
  return { permits }
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
  return granted(token, slots)
end
save(holds)

local position = -1
if channel ~= '' then
  -- This and the first write fail before anything is written, if one of the keys is of another type.
  local last = tonumber(redis.call('ZRANGE', queue, '-1', '-1', 'WITHSCORES')[2]) or 0
  local seen = integer(now)
  redis.call('HSET', waiters, me, seen .. ':' .. ttl_ms .. kind .. ':' .. channel .. ':' .. label)
  -- After the last one, even if the clock stepped back.
  local is_new = redis.call('ZADD', queue, 'NX', last < now and seen or integer(last + 1), me) == 1
  position = is_new and redis.call('ZCARD', queue) - 1 or redis.call('ZRANK', queue, me)
  -- Once a second is enough for keys that are kept for six: the first who came in this second has done it.
  if not is_new or math.floor(now / 1000000) ~= math.floor(last / 1000000) then
    redis.call('PEXPIRE', queue, QUEUE_MS)
    redis.call('PEXPIRE', waiters, QUEUE_MS)
  end
end
-- C38: the first hold that ends may leave room.
local left = redis.call('PTTL', lock)
for _, hold in ipairs(holds) do
  if hold.expires then left = math.min(left, math.ceil(hold.expires - now / 1000)) end
end
return { left, holds[1] and holds[1].label or '', position, integer(now) }
