
-- Makes the hold "owner:token:" last that long from now: 1 if it does, 0 if the lock is not that hold's any
-- more, or an error that tells nothing about the lock.
local function extended(lock, hold, ttl_ms)
  local value = redis.pcall('GET', lock)
  -- A key of another type is not ours.
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then return value end
  -- C10: a hold that is over is not made anew.
  local lasts = type(value) == 'string' and last_at_least(lock, value, hold, ttl_ms)
  return lasts and 1 or 0
end

