-- Extends the life of a token counter while its lock is held. Renewals within the first TTL of each day extend it;
-- a hold is renewed several times in a TTL, so one of its renewals falls into that time.
-- ARGV: the longest TTL in ms, …
local is_time_to_keep = redis.call('TIME')[1] % 86400 * 1000 < tonumber(ARGV[1])

local function keep_counter(lock)
  -- The request does not name this key, which lies in the same slot as the lock. A renewal of another day makes
  -- up for a failure.
  redis.pcall('PEXPIRE', '{' .. lock .. '}:fence', '@counter_ms@')
end

