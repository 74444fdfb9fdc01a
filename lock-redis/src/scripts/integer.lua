-- All digits of a number. Lua writes two that fit an integer of the machine faster than one that does not.
local function integer(number)
  local low = number % 10000000
  if low == number then return string.format('%d', number) end
  return string.format('%d%07d', (number - low) / 10000000, low)
end

