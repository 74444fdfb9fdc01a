-- KEYS: lock…   ARGV: the longest TTL in ms, "owner:token:" of each, and the TTL of each unless all have the longest
-- -> for each lock 1 if the hold lasts that long from now, 0 if the lock is not that hold's any more
-- A key of another type is not ours, and counts as missing.
local values, answers = redis.pcall('MGET', unpack(KEYS)), {}
-- An error tells nothing about the locks, and is the answer.
if values.err then return values end
for i, lock in ipairs(KEYS) do
  local value = values[i]
  -- C10: a hold that is over is not made anew.
  local lasts = value and last_at_least(lock, value, ARGV[i + 1], ARGV[#KEYS + i + 1] or ARGV[1])
  if lasts and is_time_to_keep then keep_counter(lock) end
  answers[i] = lasts and 1 or 0
end
return answers
