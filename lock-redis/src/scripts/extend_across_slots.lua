-- KEYS: none   ARGV: the longest TTL in ms, then lock, "owner:token:", and TTL in ms for each lock in turn
-- -> for each lock 1 if the hold lasts that long from now, 0 if the lock is not that hold's any more, nil if this
-- server does not tell: it has not the slot of the lock, or not the key while the slot moves
local answers = {}
for i = 2, #ARGV, 3 do
  local lock, hold, ttl_ms = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  -- The server checks each command that a script runs as it checks a request for the same key.
  local value = redis.pcall('GET', lock)
  local is_told = type(value) ~= 'table'
  if not is_told and string.find(value.err, 'WRONGTYPE', 1, true) then
    -- A key of another type is not ours.
    value, is_told = false, true
  end
  -- C10: a hold that is over is not made anew.
  local lasts = is_told and value and last_at_least(lock, value, hold, ttl_ms)
  if lasts and is_time_to_keep then keep_counter(lock) end
  answers[#answers + 1] = is_told and (lasts and 1 or 0)
end
return answers
