-- Extends the life of a token counter while its lock is held. Renewals within the first TTL of each day extend it;
-- a hold is renewed several times in a TTL, so one of its renewals falls into that time.
-- ARGV: the longest TTL in ms, …
local is_time_to_keep = redis.call('TIME')[1] % 86400 * 1000 < tonumber(ARGV[1])

-- Extends the life of a key to that of a new counter. C22: never shortens a life, which is longer after the clock
-- stepped back. The request does not name the key, which lies in the same slot as the lock. A renewal of another day
-- makes up for a failure.
local function keep(key)
  local left = redis.pcall('PTTL', key)
  if type(left) == 'number' and left >= 0 and left < @counter_ms@ then redis.pcall('PEXPIRE', key, '@counter_ms@') end
end

local function keep_counter(lock)
  keep('{' .. lock .. '}:fence')
end

