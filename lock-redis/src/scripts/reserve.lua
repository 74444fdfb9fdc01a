-- KEYS: lock, fence, queue, waiters   ARGV: owner, limit of the server's clock, how many tokens are wanted, '1'
-- if waiters go first, else '0'
-- -> {the first token} if the hold goes on under tokens that are reserved, else as release.lua
local owner, limit, tokens, yields = unpack(ARGV)
-- Only an exclusive hold is passed on within its client.
local value = read(lock)
local is_held = string.sub(value or '', 1, #owner + 1) == owner .. ':'
if is_held and (yields == '0' or redis.call('EXISTS', queue) == 0) then
  local last = redis.pcall('INCRBY', fence, tokens)
  if type(last) == 'number' then
    local before = last - tokens
    -- C22: a counter that was there, and that stays behind the clock: so the time is ahead of a counter
    -- that is lost.
    if before > 0 and last <= server_time() and last <= MAX_TOKEN then
      redis.call('PEXPIRE', fence, COUNTER_MS)
      return { integer(before + 1) }
    end
    redis.call('INCRBY', fence, -tokens)
    if before == 0 then redis.call('DEL', fence) end
  end
end
return release(owner, limit, value)
