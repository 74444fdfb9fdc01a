-- KEYS: lock, run   ARGV: "owner:token:", token, lifetime of the record in ms
-- -> 1 if the run is recorded, 0 if the hold is over
local hold, token, remember_ms = unpack(ARGV)
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'table' then
  -- A key of another type is no hold. Any other error says nothing about the lock, and is returned as the answer.
  return string.find(held.err, 'WRONGTYPE', 1, true) and 0 or held
end
-- C42: check and record are one atomic step.
if not held or string.sub(held, 1, #hold) ~= hold then return 0 end
redis.call('SET', KEYS[2], token, 'PX', remember_ms)
return 1
