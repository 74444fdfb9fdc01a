-- KEYS: (lock, queue, waiters)…   ARGV: '1' to leave out free locks, else '0'
-- -> now, and for each lock {value or nil, ms left or -1, number of waiters, type of a key that is no lock or ''};
-- nil if it is left out
local now, states = server_time(), {}

-- Returns the number of living waiters. A long queue is counted with its dead ones, to keep the look short.
local function count_waiters(queue, waiters)
  local count, alive = redis.pcall('ZCARD', queue), 0
  if type(count) ~= 'number' or count == 0 then return 0 end
  if count > 100 then return count end
  for _, entry in ipairs(redis.pcall('HVALS', waiters)) do
    local seen = tonumber(string.match(entry, '^%d+'))
    if seen and now - seen <= @liveness_us@ then alive = alive + 1 end
  end
  return alive
end

for i = 1, #KEYS, 3 do
  local value, found = read(KEYS[i])
  local state = false
  if value or found or ARGV[1] == '0' then
    state = { value, redis.call('PTTL', KEYS[i]), count_waiters(KEYS[i + 1], KEYS[i + 2]), found or '' }
  end
  states[#states + 1] = state
end
return { integer(now), states }
