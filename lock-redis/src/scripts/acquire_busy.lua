local me, ttl_ms, label, channel, limit, kind = unpack(ARGV)
kind = kind or ''

local value, found = read(lock)
if found then return not_a_lock(found) end
-- C19: a late request of a withdrawn claim takes nothing. A key of any type is such a mark.
local withdrawn = redis.call('EXISTS', KEYS[5]) == 1
if withdrawn then return { err = 'WITHDRAWN the claim was withdrawn' } end
local now = tonumber(now_text)
if now > tonumber(limit) then
  return { err = 'CLOCK the clock of the server is more than a day ahead of the client' }
end

-- R1: lets a key of the queue outlast the waiter. It is written seldom, since each write also goes to the replicas
-- and to the append-only file.
local function keep(key)
  if redis.call('PTTL', key) < @queue_kept_ms@ then redis.call('PEXPIRE', key, QUEUE_MS) end
end

-- Returns the answer to a claim that must wait. The claim takes a place in the queue, if it has a channel. The holder
-- is its label, or false if it is a foreign client.
local function busy(left, holder, beside)
  if channel == '' then return { left, holder, -1, now_text, beside } end
  -- This read and the first write fail before anything is written, if one of the keys is of another type.
  local position = redis.call('ZRANK', queue, me)
  redis.call('HSET', waiters, me, now_text .. ':' .. ttl_ms .. kind .. ':' .. channel .. ':' .. label)
  if not position then
    local last = tonumber(redis.call('ZRANGE', queue, '-1', '-1', 'WITHSCORES')[2]) or 0
    -- Behind the last waiter, even if the clock stepped back.
    redis.call('ZADD', queue, last < now and now_text or integer(last + 1), me)
    position = redis.call('ZCARD', queue) - 1
  end
  keep(queue)
  keep(waiters)
  -- P2: every grant before this answer was made before `at`, even if the clock stepped back since then, because a
  -- token is never below the time of its grant.
  local newest = redis.pcall('GET', fence)
  local at = type(newest) == 'string' and string.find(newest, '^%d+$')
    and integer(math.max(now, math.min(tonumber(newest) + 1, @max_token@))) or now_text
  return { left, holder, position, at, beside }
end

-- The common case of a held lock, before more is defined: another owner has an exclusive hold.
local holder, holder_label = string.match(value or '', '^(%x+):%d+:%d+:(.*)$')
if holder and #holder == 32 and holder ~= me then return busy(redis.call('PTTL', lock), holder_label) end

-- Behind a living first waiter, which looks at the holds for itself: hundreds of holds are not read for each waiter. The
-- end of the last hold is told.
local permits = string.match(value or '', '^%*(%d*)\n')
if permits and (redis.call('ZRANK', queue, me) or 0) > 0 then
  local first_ttl, first_kind, _, first_label = wish(redis.call('ZRANGE', queue, '0', '0')[1], now)
  if first_ttl then
    local label = string.match(value, '^[^\n]*\n[^\n:]*:[^\n:]*:[^\n:]*:[^\n:]*:[^\n:]*:([^\n]*)')
    local first_permits = string.match(first_kind or '', '%d+') or '0'
    return busy(redis.call('PTTL', lock), label or '', { permits == '' and '0' or permits, first_permits, first_label or '' })
  end
end

