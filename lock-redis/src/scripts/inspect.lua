-- KEYS: (lock, waiters)…   ARGV: '1' to leave out free locks, else nothing
-- -> now, and for each lock {value or nil, ms left or -1, number of waiters, type of a key that is no lock or ''};
-- nil if it is left out
local now, states = server_time(), {}

-- Returns the number of living waiters. A long queue is counted with its dead ones, to keep the look short.
local function count_waiters(lock, waiters)
  -- The request does not name the queue, which lies in the same slot. Its server may have lost that slot.
  local count, alive = redis.pcall('ZCARD', '{' .. lock .. '}:queue'), 0
  if count == 0 then return 0 end
  if type(count) == 'number' and count > 100 then return count end
  for _, entry in ipairs(redis.pcall('HVALS', waiters)) do
    local seen = tonumber(string.match(entry, '^%d+'))
    if seen and now - seen <= @liveness_us@ then alive = alive + 1 end
  end
  return alive
end

for i = 1, #KEYS, 2 do
  local value, found = read(KEYS[i])
  local state = false
  if value or found or not ARGV[1] then
    state = { value, redis.call('PTTL', KEYS[i]), count_waiters(KEYS[i], KEYS[i + 1]), found or '' }
  end
  states[#states + 1] = state
end
return { integer(now), states }
