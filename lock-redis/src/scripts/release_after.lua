-- KEYS: lock   ARGV: owner, its retired owner, for how many ms others are kept out
-- -> 1 if the owner held the lock, and does no more; 0 if it did not
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'table' then
  -- A key of another type is no hold. Any other error tells nothing about the lock, and is the answer.
  return string.find(held.err, 'WRONGTYPE', 1, true) and 0 or held
end
local owner = held and string.sub(held, 1, 33)
-- C16: a repeat finds what it did before.
if owner ~= ARGV[1] .. ':' and owner ~= ARGV[2] .. ':' then return 0 end
-- C41: nothing that the former owner sends touches it any more, and it ends exactly then.
redis.call('SET', KEYS[1], ARGV[2] .. string.sub(held, 33), 'PX', ARGV[3])
return 1
