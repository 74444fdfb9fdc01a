-- Reads the holders of a lock from its key.
--
-- The value of an exclusive hold is "owner:token:since:label", where "since" is the server's time of the grant in
-- ms since 1970. Holds beside each other (C33) have a line each, in the order of their grants, below the mark of
-- their kind: "*" if they are shared, "*5" if each has some of 5 permits.
--
--   *5
--   owner:token:expires:since:slots:label     "expires" in ms since 1970 as well, slots as in "0,2"
--   owner:token:expires:since:slots:label
--
-- C37: the key of such holds lasts as long as the last of them.
--
-- S3: any other value is a foreign client's lock, also one with an unknown line. Claims wait until its key is
-- gone. A later format may change everything except this: its first line begins neither with "owner:token:" nor
-- with a mark.

local function server_time() -- in microseconds
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Returns a time in ms as 13 digits, so that a later time replaces it in place, also on a server of 1970.
local function digits(ms)
  return string.format('%013.0f', ms)
end

-- C10: makes the hold "owner:token:" last at least `ttl_ms` from now; returns true unless the hold is over. An
-- extension never shortens a hold, so that requests may overtake each other.
local function last_at_least(lock, value, hold, ttl_ms)
  if string.sub(value, 1, #hold) == hold then
    -- Redis 7 compares by itself. For GT a key without a TTL lasts for ever.
    if redis.REDIS_VERSION_NUM and redis.call('PEXPIRE', lock, ttl_ms, 'GT') == 1 then return true end
    if redis.call('PTTL', lock) < tonumber(ttl_ms) then redis.call('PEXPIRE', lock, ttl_ms) end
    return true
  end
  local _, head = string.find(value, '\n' .. hold, 1, true)
  local expires = head and string.find(value, '^%*%d*\n') and tonumber(string.match(value, '^%d+', head + 1))
  local now = server_time()
  -- C38: an expired hold stays in the value until the next change of the holds.
  if not expires or expires * 1000 <= now then return false end
  -- Written even if it changes nothing: a server out of memory allows it, and then also the rest.
  redis.call('PEXPIRE', lock, math.max(redis.call('PTTL', lock), ttl_ms))
  local later = math.floor(now / 1000) + ttl_ms
  if later > expires then redis.call('SETRANGE', lock, head, digits(later)) end
  return true
end
