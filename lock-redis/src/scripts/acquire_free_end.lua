if token then
  -- As text: a number of 16 digits would lose some on its way.
  local token = redis.call('GETEX', fence, 'PX', '@counter_ms@')
  -- C45: in ms since 1970.
  local since = string.sub(now_text, 1, -4)
  -- C29: as any client of Redis takes a lock.
  redis.call('SET', KEYS[1], ARGV[1] .. ':' .. token .. ':' .. since .. ':' .. ARGV[3], 'NX', 'PX', ARGV[2])
  return token
end
end -- of what acquire_free.lua begins

