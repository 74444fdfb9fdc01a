-- What the key of a lock holds, for the programs of one server and of a voter.

local function integer(number)
  return string.format('%.0f', number)
end

-- The value of a lock's key, false if there is none; or false and the type of a key that is no lock.
local function read(lock)
  local value = redis.pcall('GET', lock)
  if type(value) ~= 'table' then return value end
  -- C49: no client of locks has written a key of another type. Any other error ends the script.
  if not string.find(value.err, 'WRONGTYPE', 1, true) then return redis.call('GET', lock) end
  return false, redis.pcall('TYPE', lock).ok or 'unknown'
end

-- What is answered where a lock has to be.
local function not_a_lock(found)
  return { err = 'NOTALOCK ' .. found }
end

