-- The common case, before anything else is defined: the lock is free, nobody waits for it, and its counter
-- is there. KEYS, ARGV and answers are those of acquire.lua, which does the rest.
if redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[5]) == 0 then
  local fence = KEYS[2]
  -- C22: one more than the last token. Only a counter that is missing asks for the time.
  local counted = redis.pcall('INCR', fence)
  if type(counted) == 'number' then
    if counted > 1 and counted < @max_token@ then
      -- As text: a number of 16 digits would lose some on its way.
      local token = redis.call('GETEX', fence, 'PX', '@counter_ms@')
      local time = redis.call('TIME')
      -- C45: in ms since 1970. The server puts no zeros before the microseconds.
      local micros = time[2]
      while #micros < 6 do micros = '0' .. micros end
      if @several@ then
        -- C22: as in granting.lua.
        local now = time[1] * 1000000 + time[2]
        if counted < now and now <= tonumber(ARGV[5]) then
          token = string.format('%.0f', now)
          redis.call('SET', fence, token, 'PX', '@counter_ms@')
        end
      end
      local since = time[1] .. string.sub(micros, 1, 3)
      local value = ARGV[1] .. ':' .. token .. ':' .. since .. ':' .. ARGV[3]
      -- C29: as any client of Redis takes a lock.
      redis.call('SET', KEYS[1], value, 'NX', 'PX', ARGV[2])
      return token
    end
    redis.call(counted == 1 and 'DEL' or 'DECR', fence)
  end
end

