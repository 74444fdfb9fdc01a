-- The common case, before more is defined: the lock is free and has no waiters. KEYS, ARGV and answers are those
-- of acquire.lua, which handles all other cases.
if redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[5]) == 0 then
  local token = counted(KEYS[2], ARGV[5])
  if token then
    -- C45: in ms since 1970.
    local since = string.sub(now_text, 1, -4)
    -- C29: the same command as other Redis clients use for a lock.
    redis.call('SET', KEYS[1], ARGV[1] .. ':' .. token .. ':' .. since .. ':' .. ARGV[3], 'NX', 'PX', ARGV[2])
    return token
  end
end

