-- Extends the life of a token counter while its lock is held. Renewals within the first TTL of each day extend it;
-- a hold is renewed several times in a TTL, so one of its renewals falls into that time.
-- ARGV: the longest TTL in ms, …
local is_time_to_keep = redis.call('TIME')[1] % 86400 * 1000 < tonumber(ARGV[1])

local function keep_counter(lock)
  -- The request does not name this key, which lies in the same slot as the lock. A renewal of another day makes
  -- up for a failure.
  local fence = '{' .. lock .. '}:fence'
  local left = redis.pcall('PTTL', fence)
  -- C22: never shortens its life, which is longer after the clock stepped back.
  if type(left) == 'number' and left >= 0 and left < @counter_ms@ then
    redis.pcall('PEXPIRE', fence, '@counter_ms@')
  end
end

