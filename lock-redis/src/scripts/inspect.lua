-- KEYS: (lock, waiters)…
-- -> for each lock {value or nil, ms left or -1, how many waiters are alive}
local now, states = server_time(), {}
for i = 1, #KEYS, 2 do
  local value, alive = redis.pcall('GET', KEYS[i]), 0
  -- A key of another type is a foreign client's.
  if type(value) == 'table' then value = '' end
  for _, entry in ipairs(redis.pcall('HVALS', KEYS[i + 1])) do
    local seen = tonumber(string.match(entry, '^%d+'))
    if seen and now - seen <= LIVENESS then alive = alive + 1 end
  end
  states[#states + 1] = { value, redis.call('PTTL', KEYS[i]), alive }
end
return states
