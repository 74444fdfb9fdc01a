-- KEYS: held, lock…
-- ARGV: the longest TTL in ms, "owner:token:" of each, and the TTL of each unless all have the longest
-- -> for each lock 1 if the hold now lasts for its TTL on this voter, 0 if this voter does not have it
outlast(KEYS[1], ARGV[1])
local answers = {}
for i = 2, #KEYS do
  local hold, ttl_ms = ARGV[i], ARGV[#KEYS + i - 1] or ARGV[1]
  local value = read(KEYS[i])
  -- C10: an expired hold is not restored.
  local stands = value and string.sub(value, 1, #hold) == hold
  -- An extension never shortens a hold, so that requests may overtake each other.
  if stands and redis.call('PTTL', KEYS[i]) < tonumber(ttl_ms) then
    redis.call('PEXPIRE', KEYS[i], ttl_ms)
  end
  if stands and is_time_to_keep then keep_counter(KEYS[i]) end
  answers[i - 1] = stands and 1 or 0
end
return answers
