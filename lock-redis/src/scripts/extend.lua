-- KEYS: lock…   ARGV: the longest TTL in ms, "owner:token:" of each, and the TTL of each unless all have the longest
-- -> for each lock 1 if the hold now lasts for its TTL, 0 if the hold is over
-- A key of another type is not a lock of ours, and counts as missing.
-- Each key is read once, since the value of a lock with many holders is long.
local locks, numbers, answers = {}, {}, {}
for _, lock in ipairs(KEYS) do
  if not numbers[lock] then locks[#locks + 1], numbers[lock] = lock, #locks + 1 end
end
local values = redis.pcall('MGET', unpack(locks))
-- An error says nothing about the locks, and is returned as the answer.
if values.err then return values end
for i, lock in ipairs(KEYS) do
  local value = values[numbers[lock]]
  -- C10: an expired hold is not restored.
  local lasts = value and last_at_least(lock, value, ARGV[i + 1], ARGV[#KEYS + i + 1] or ARGV[1])
  if lasts and is_time_to_keep then keep_counter(lock) end
  answers[i] = lasts and 1 or 0
end
return answers
