-- KEYS: lock   ARGV: owner, its retired owner, time in ms to keep others out
-- -> 1 if the owner held the lock, and does no longer; 0 if it did not
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'table' then
  -- A key of another type is no hold. Any other error says nothing about the lock, and is returned as the answer.
  return string.find(held.err, 'WRONGTYPE', 1, true) and 0 or held
end
local owner = held and string.sub(held, 1, 33)
-- C16: a repeat finds the hold under either owner.
if owner ~= ARGV[1] .. ':' and owner ~= ARGV[2] .. ':' then return 0 end
-- C41: requests of the former owner do not affect the hold any more, and it ends after exactly that time.
redis.call('SET', KEYS[1], ARGV[2] .. string.sub(held, 33), 'PX', ARGV[3])
return 1
