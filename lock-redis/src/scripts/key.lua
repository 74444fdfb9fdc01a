-- Content of a lock's key, for the programs of one server and of a voter.

-- All digits of a number. Lua writes two that fit an integer of the machine faster than one that does not.
local function integer(number)
  if number < 10000000 then return string.format('%d', number) end
  local low = number % 10000000
  return string.format('%d%07d', (number - low) / 10000000, low)
end

-- The value of a lock's key, false if there is none; or false and the type of a key that is no lock.
local function read(lock)
  local value = redis.pcall('GET', lock)
  if type(value) ~= 'table' then return value end
  -- C49: no client of locks has written a key of another type. Any other error ends the script.
  if not string.find(value.err, 'WRONGTYPE', 1, true) then return redis.call('GET', lock) end
  return false, redis.pcall('TYPE', lock).ok or 'unknown'
end

-- Refuses something else in the place of a lock.
local function not_a_lock(found)
  return { err = 'NOTALOCK ' .. found }
end

