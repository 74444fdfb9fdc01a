-- KEYS: lock, fence, queue, waiters, withdrawn
-- ARGV: owner, TTL in ms, label, channel ('' does not queue, POLLED polls without messages), limit of the
-- server's clock, kind (none if it is exclusive, '*' if it is shared, '*5/2' if it takes 2 of 5 permits)
-- -> token, or {token, slots} if it has slots: granted
--  | {ms left or -1, holder's label or nil if it is foreign, position or -1, now}: busy. If the holder is not
--    exclusive, there follows {number of permits that the holders count or 0, that of the first waiter or 0, label of
--    this waiter}
local function granted(token, slots)
  return slots ~= '' and { token, slots } or token
end

local holds = holds_in(value, now)
-- C16: a repeated acquire finds its own grant, with the same token and slots.
for _, hold in ipairs(holds) do
  if hold.owner == me then
    last_at_least(lock, value, me .. ':' .. hold.token .. ':', ttl_ms)
    return granted(hold.token, hold.slots)
  end
end

local is_next, first_kind, first_label = serve(holds, now, me)
local slots = is_next and fits(holds, kind)
if slots then
  local token = next_token(now)
  remember_token(token, now)
  leave_queue(me)
  add(holds, kind, me, token, ttl_ms, slots, label, now)
  -- C34: also lets in the waiters behind it that fit.
  serve(holds, now)
  save(holds)
  return granted(token, slots)
end
save(holds)

-- C38: the first hold to expire may leave room.
local left = redis.call('PTTL', lock)
for _, hold in ipairs(holds) do
  if hold.expires then left = math.min(left, math.ceil(hold.expires - now / 1000)) end
end
local function permits(kind)
  return string.match(kind or '', '%d+') or '0'
end
local beside = { permits(holds.mark), permits(first_kind), first_label or '' }
return busy(left, holds[1] and holds[1].label or not holds.mark and '', beside)
