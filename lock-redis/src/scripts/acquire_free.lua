-- The common case, before anything else is defined: the lock is free, and nobody waits for it. KEYS, ARGV and answers are
-- those of acquire.lua, which does the rest.
if redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[5]) == 0 then
  local token = counted(KEYS[2], ARGV[5])
  if token then
    -- C45: in ms since 1970.
    local since = string.sub(now_text, 1, -4)
    -- C29: as any client of Redis takes a lock.
    redis.call('SET', KEYS[1], ARGV[1] .. ':' .. token .. ':' .. since .. ':' .. ARGV[3], 'NX', 'PX', ARGV[2])
    return token
  end
end

