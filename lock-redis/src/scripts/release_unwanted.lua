-- The common case, before anything is defined: the owner holds the lock, and nobody waits for it.
-- KEYS, ARGV and answers are those of release.lua, which does the rest.
local held, owner, place = redis.pcall('GET', KEYS[1])
if type(held) == 'string' and string.find(held, ARGV[1], 1, true) == 1 then
  -- To take out the first one who waits is what a server out of memory allows. After that it allows the rest.
  local first = redis.pcall('ZPOPMIN', KEYS[3])
  owner, place = first[1], first[2]
  if not owner then
    redis.call('DEL', KEYS[1])
    -- The hold is over, whatever is in the way of the queue. But a user who lacks a right is told so.
    if first.err and not string.find(first.err, 'WRONGTYPE', 1, true) then redis.call('ZPOPMIN', KEYS[3]) end
    return 1
  end
end

