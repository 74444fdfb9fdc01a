-- KEYS: lock…   ARGV: "owner:token:", TTL in ms, for each lock in turn
-- -> for each lock 1 if the hold lasts that long from now, 0 if the lock is not that hold's any more
local answers = {}
for i, lock in ipairs(KEYS) do
  local hold, ttl_ms = ARGV[2 * i - 1], ARGV[2 * i]
  local value = redis.pcall('GET', lock)
  -- A key of another type is not ours. Any other error tells nothing about the lock, and is the answer.
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
    return value
  end
  -- C10: a hold that is over is not made anew.
  local lasts = type(value) == 'string' and last_at_least(lock, value, hold, ttl_ms)
  answers[i] = lasts and 1 or 0
end
return answers
