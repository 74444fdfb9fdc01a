-- KEYS: (lock, waiters)…
-- -> now, and for each lock {value or nil, ms left or -1, number of living waiters, type of a key that is no
-- lock or ''}
local now, states = server_time(), {}
for i = 1, #KEYS, 2 do
  local value, found = read(KEYS[i])
  local alive = 0
  for _, entry in ipairs(redis.pcall('HVALS', KEYS[i + 1])) do
    local seen = tonumber(string.match(entry, '^%d+'))
    if seen and now - seen <= @liveness_us@ then alive = alive + 1 end
  end
  states[#states + 1] = { value, redis.call('PTTL', KEYS[i]), alive, found or '' }
end
return { integer(now), states }
