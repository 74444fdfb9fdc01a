-- KEYS: lock, waiters   -> {value or nil, ms left or -1, waiters that are alive}
local value = redis.call('GET', KEYS[1])
local now, alive = server_time(), 0
for _, entry in ipairs(redis.call('HVALS', KEYS[2])) do
  local seen = tonumber(string.match(entry, '^%d+'))
  if seen and now - seen <= LIVENESS then alive = alive + 1 end
end
return { value, redis.call('PTTL', KEYS[1]), alive }
