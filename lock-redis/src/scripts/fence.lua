-- KEYS: mark, then those of the write   ARGV: token, then those of the write
-- -> {token seen} if that is greater, else {nil, answer of the write}
local mark, token = table.remove(KEYS, 1), table.remove(ARGV, 1)
for _, key in ipairs(KEYS) do
  -- A lock's key is its record, and a write would destroy it. Every lock has a counter, which the request does not
  -- name. Only a plain key can be a lock's, and the counter is in its slot.
  local is_locks = not string.find(key, '[{}]') and redis.pcall('EXISTS', '{' .. key .. '}:fence') == 1
  if is_locks or key == mark then return { err = 'LOCKKEY ' .. key } end
end
local seen = redis.call('GET', mark)
if seen and not string.match(seen, '^%d+$') then
  return { err = 'COUNTER the mark ' .. mark .. ' holds no token' }
end
-- C24: an equal or greater token passes; check and write are one atomic step.
if seen and tonumber(seen) > tonumber(token) then return { seen } end
-- C25: the fence advances before the write.
redis.call('SET', mark, token)
local function write()
