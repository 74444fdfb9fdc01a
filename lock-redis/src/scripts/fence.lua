-- KEYS: mark, then those of the write   ARGV: token, then those of the write
-- -> {token seen} if that is greater, else {nil, answer of the write}
local mark, token = table.remove(KEYS, 1), table.remove(ARGV, 1)
local seen = redis.call('GET', mark)
if seen and not string.match(seen, '^%d+$') then
  return { err = 'COUNTER the mark ' .. mark .. ' holds no token' }
end
-- C24: an equal or greater token passes; check and write are one atomic step.
if seen and tonumber(seen) > tonumber(token) then return { seen } end
-- C25: the fence advances before the write.
redis.call('SET', mark, token)
local function write()
