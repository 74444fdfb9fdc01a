-- KEYS: lock, fence, queue, waiters   ARGV: limit of the server's clock, first 8 digits of the owner or '' for
-- all holders
-- -> {value, ms left or -1, now, last token or ''} of the key before the eviction; nil if no such owner held the
-- lock
local limit, digits = unpack(ARGV)
local value, found = read(lock)
if found then return not_a_lock(found) end
local now = server_time()
local holds, left = holds_in(value, now), redis.call('PTTL', lock)
if not holds.mark then
  -- A replica, which may lack the newest hold, refuses any write.
  redis.call('DEL', lock)
  return nil
end
if digits == '' then
  -- Also ends a hold of a foreign client, which is not in the list.
  holds = { changed = true }
else
  for i = #holds, 1, -1 do
    if string.sub(holds[i].owner, 1, 8) == digits then remove(holds, holds[i].owner) end
  end
end
if not holds.changed then return nil end
-- C46: it includes the tokens that were reserved.
local last = redis.pcall('GET', fence)
pass_on(holds, now, limit)
return { value, left, integer(now), type(last) == 'string' and last or '' }
