-- A token counter lasts for as long as its lock is held: the holds that are renewed within the first TTL of a day make
-- theirs last anew. A hold is renewed several times in a TTL, so that one of its renewals is then, each day.
-- ARGV: the longest TTL in ms, …
local is_time_to_keep = redis.call('TIME')[1] % 86400 * 1000 < tonumber(ARGV[1])

local function keep_counter(lock)
  -- The request does not name this key, which lies where the lock does. What fails is made good on another day.
  redis.pcall('PEXPIRE', '{' .. lock .. '}:fence', '@counter_ms@')
end

