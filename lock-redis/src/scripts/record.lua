-- KEYS: lock, run, runs   ARGV: "owner:token:", token, occurrence, lifetime of the record in ms
-- -> 1 if the run is recorded, 0 if the hold is over
local hold, token, occurrence, remember_ms = unpack(ARGV)
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'table' then
  -- A key of another type is no hold. Any other error says nothing about the lock, and is returned as the answer.
  return string.find(held.err, 'WRONGTYPE', 1, true) and 0 or held
end
-- C42: check and record are one atomic step.
if not held or string.sub(held, 1, #hold) ~= hold then return 0 end
redis.call('SET', KEYS[2], token, 'PX', remember_ms)

-- The index of the lock's runs is sorted by the time at which each record has expired. A record in the index costs the
-- removal of at most eight expired ones. An index that a stranger has made does not fail the record.
local runs, now_ms = KEYS[3], redis.call('TIME')[1] * 1000
local first = redis.pcall('ZRANGE', runs, '0', '7', 'WITHSCORES')
for i = 1, #first, 2 do
  if tonumber(first[i + 1]) < now_ms then redis.call('ZREM', runs, first[i]) end
end
local is_ours = type(redis.pcall('ZADD', runs, now_ms + remember_ms + 1000, occurrence)) == 'number'
if is_ours and redis.call('PTTL', runs) < tonumber(remember_ms) then redis.call('PEXPIRE', runs, remember_ms) end
return 1
