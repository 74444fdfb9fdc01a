-- KEYS: lock…   ARGV: "owner:token:", TTL in ms, for each lock in turn
-- -> for each lock 1 if the hold lasts that long from now, 0 if the lock is not that hold's any more
-- A key of another type is not ours, and counts as missing.
local values, answers = redis.pcall('MGET', unpack(KEYS)), {}
-- An error tells nothing about the locks, and is the answer.
if values.err then return values end
for i, lock in ipairs(KEYS) do
  local value = values[i]
  -- C10: a hold that is over is not made anew.
  answers[i] = value and last_at_least(lock, value, ARGV[2 * i - 1], ARGV[2 * i]) and 1 or 0
end
return answers
