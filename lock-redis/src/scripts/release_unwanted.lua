-- The common case, before more is defined: the owner holds the lock, which has no waiters. KEYS, ARGV and answers
-- are those of release.lua, which handles all other cases.
local held, owner, place = redis.pcall('GET', KEYS[1])
if type(held) == 'string' and string.find(held, ARGV[1], 1, true) == 1 then
  -- A server out of memory allows the removal of the first waiter, and then also the rest.
  local first = redis.pcall('ZPOPMIN', KEYS[3])
  owner, place = first[1], first[2]
  if not owner then
    redis.call('DEL', KEYS[1])
    -- The hold is over, even if the queue cannot be read. But a user who lacks a right gets the error.
    if first.err and not string.find(first.err, 'WRONGTYPE', 1, true) then redis.call('ZPOPMIN', KEYS[3]) end
    return 1
  end
end

