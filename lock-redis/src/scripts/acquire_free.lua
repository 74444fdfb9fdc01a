-- The common case, before anything else is defined: the lock is free, nobody waits for it, and its counter
-- is there. KEYS, ARGV and answers are those of acquire.lua, which does the rest.
if redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[5]) == 0 and counted(KEYS[2], ARGV[5]) then
  -- As text: a number of 16 digits would lose some on its way.
  local token = redis.call('GETEX', KEYS[2], 'PX', '@counter_ms@')
  -- C45: in ms since 1970.
  local since = string.sub(now_text, 1, -4)
  -- C29: as any client of Redis takes a lock.
  redis.call('SET', KEYS[1], ARGV[1] .. ':' .. token .. ':' .. since .. ':' .. ARGV[3], 'NX', 'PX', ARGV[2])
  return token
end

