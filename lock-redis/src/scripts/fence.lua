-- KEYS: mark [, resource key]   ARGV: token [, value]   -> nil if accepted, else the token seen
local seen = redis.call('GET', KEYS[1])
if seen and not string.match(seen, '^%d+$') then
  return { err = 'COUNTER the mark ' .. KEYS[1] .. ' holds no token' }
end
if seen and tonumber(seen) > tonumber(ARGV[1]) then return seen end
redis.call('SET', KEYS[1], ARGV[1])
if KEYS[2] then redis.call('SET', KEYS[2], ARGV[2]) end
return nil
