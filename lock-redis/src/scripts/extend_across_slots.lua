-- KEYS: none   ARGV: the longest TTL in ms, then lock, "owner:token:", and TTL in ms for each lock in turn
-- -> for each lock 1 if the hold now lasts for its TTL, 0 if the hold is over, nil if this server cannot tell: it
-- does not have the slot of the lock, or not its key while the slot moves
local answers, values = {}, {}
for i = 2, #ARGV, 3 do
  local lock, hold, ttl_ms = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  -- Each key is read once, since the value of a lock with many holders is long. The server checks each command of a
  -- script as it checks a request for the same key.
  if values[lock] == nil then values[lock] = redis.pcall('GET', lock) end
  local value = values[lock]
  local is_told = type(value) ~= 'table'
  if not is_told and string.find(value.err, 'WRONGTYPE', 1, true) then
    -- A key of another type is not a lock of ours.
    value, is_told = false, true
  end
  -- C10: an expired hold is not restored.
  local lasts = is_told and value and last_at_least(lock, value, hold, ttl_ms)
  if lasts and is_time_to_keep then keep_counter(lock) end
  answers[#answers + 1] = is_told and (lasts and 1 or 0)
end
return answers
