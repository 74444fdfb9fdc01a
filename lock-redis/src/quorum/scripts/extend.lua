-- KEYS: held, lock…   ARGV: the longest TTL in ms, then "owner:token:" and TTL in ms for each lock in turn
-- -> for each lock 1 if the hold lasts that long from now on this voter, 0 if it does not stand here
outlast(KEYS[1], ARGV[1])
local answers = {}
for i = 2, #KEYS do
  local hold, ttl_ms = ARGV[2 * i - 2], ARGV[2 * i - 1]
  local value = read(KEYS[i])
  -- C10: a hold that is over is not made anew.
  local stands = value and string.sub(value, 1, #hold) == hold
  -- An extension never shortens, so that requests may overtake each other.
  if stands and redis.call('PTTL', KEYS[i]) < tonumber(ttl_ms) then
    redis.call('PEXPIRE', KEYS[i], ttl_ms)
  end
  answers[i - 1] = stands and 1 or 0
end
return answers
