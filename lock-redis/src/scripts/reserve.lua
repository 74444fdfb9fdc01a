-- KEYS: lock, fence, queue, waiters   ARGV: owner, limit of the server's clock, number of wanted tokens, '1'
-- if waiters go first, else '0'
-- -> {the first token} if the hold goes on under reserved tokens, else as release.lua
local owner, limit, tokens, yields = unpack(ARGV)
-- Only an exclusive hold passes between tasks of its client.
local value = read(lock)
local is_held = string.sub(value or '', 1, #owner + 1) == owner .. ':'
if is_held and (yields == '0' or redis.call('EXISTS', queue) == 0) then
  local last = redis.pcall('INCRBY', fence, tokens)
  if type(last) == 'number' then
    local before = last - tokens
    -- C22: the counter must exist, and stay behind the clock. So the time is ahead of a counter that is lost.
    if before > 0 and last <= server_time() and last <= MAX_TOKEN then
      redis.call('PEXPIRE', fence, COUNTER_MS)
      return { integer(before + 1) }
    end
    redis.call('INCRBY', fence, -tokens)
    if before == 0 then redis.call('DEL', fence) end
  end
end
return release(owner, limit, value)
