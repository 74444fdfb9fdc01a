-- Content of a lock's key, for the programs of one server and of a voter.

-- Returns all digits of a number. Lua formats two machine integers faster than one larger number.
local function integer(number)
  if number < 10000000 then return string.format('%d', number) end
  local low = number % 10000000
  return string.format('%d%07d', (number - low) / 10000000, low)
end

-- Returns the life of a token counter in ms. C22: it ends a week after the time of its token, or a week from now if
-- that is later. So the clock is ahead of a counter that is gone, even if it stepped back.
local function life_of(token, now)
  return integer(@counter_ms@ + math.max(0, math.ceil((token - now) / 1000)))
end

-- Returns the value of a lock's key, false if it is missing; or false and the type of a key that is no lock.
local function read(lock)
  local value = redis.pcall('GET', lock)
  if type(value) ~= 'table' then return value end
  -- C49: a key of another type is not written by clients of locks. Any other error ends the script.
  if not string.find(value.err, 'WRONGTYPE', 1, true) then return redis.call('GET', lock) end
  return false, redis.pcall('TYPE', lock).ok or 'unknown'
end

-- Returns the error for a key that is no lock.
local function not_a_lock(found)
  return { err = 'NOTALOCK ' .. found }
end

