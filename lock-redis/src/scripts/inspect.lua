-- KEYS: (lock, waiters)…   ARGV: '1' to leave out the keys that have no token counter, else nothing
-- -> now, and for each lock {value or nil, ms left or -1, number of waiters, type of a key that is no lock or '', each
-- number of permits that these waiters count}; nil if it is left out
local now, states = server_time(), {}

-- Returns the number of living waiters, and each number of permits that they count. A long queue is counted with its
-- dead ones, and its numbers are not told, to keep the look short.
local function count_waiters(lock, waiters)
  -- The request does not name the queue, which lies in the same slot. Its server may have lost that slot.
  local count, alive, counted = redis.pcall('ZCARD', '{' .. lock .. '}:queue'), 0, {}
  if count == 0 then return 0, counted end
  if type(count) == 'number' and count > 100 then return count, counted end
  for _, entry in ipairs(redis.pcall('HVALS', waiters)) do
    local seen = tonumber(string.match(entry, '^%d+'))
    if seen and now - seen <= @liveness_us@ then
      alive = alive + 1
      local permits = string.match(entry, '^%d+:%d+%*(%d+)/')
      if permits and not counted[permits] then
        counted[permits], counted[#counted + 1] = true, permits
      end
    end
  end
  return alive, counted
end

for i = 1, #KEYS, 2 do
  local state = false
  -- The request does not name the counter, which lies in the same slot.
  if not ARGV[1] or redis.pcall('EXISTS', '{' .. KEYS[i] .. '}:fence') ~= 0 then
    local value, found = read(KEYS[i])
    local waiters, counted = count_waiters(KEYS[i], KEYS[i + 1])
    state = { value, redis.call('PTTL', KEYS[i]), waiters, found or '', counted }
  end
  states[#states + 1] = state
end
return { integer(now), states }
