-- KEYS: lock, fence, waiting, next, withdrawn, ended; of the voter: high
-- ARGV: owner, the last ballot of its claim or '0', channel or '', '1' to wake the next waiter, '1' to leave a mark,
-- '1' if a hold ends, not only an attempt
-- -> 1 if this ended the owner's hold here, 0 if the owner did not hold the lock here
local lock, fence, waiting, next, withdrawn, ended, high = unpack(KEYS)
local owner, ballot, channel, wakes, marks, ends = unpack(ARGV)
local value = read(lock)
local token = value and string.sub(value, 1, 33) == owner .. ':' and string.match(value, '^%x+:(%d+):')
-- The end of a failed attempt may arrive after a later attempt of the same claim was granted.
local held = token and (ballot == '0' or tonumber(token) <= tonumber(ballot))
-- Writes that a server out of memory allows come first; then it also allows the rest.
if held then redis.call('DEL', lock) end
local left, problem = pcall(redis.call, 'ZREM', waiting, owner .. ':' .. channel)
local last = tonumber(held and ballot == '0' and token or ballot)
local time = redis.call('TIME')
if last > 0 and not is_far_ahead(last, number_at(fence), time) then
  raise_to(fence, last, time)
  -- C19: a later request for a vote on this ballot is stale, and so is a late one. C11: a late vote that restores the
  -- hold passes the counter, and is refused by the ballot of the end. A failed attempt leaves no such ballot, since its
  -- own is greater than that of the hold.
  if ends == '1' then
    raise_to(ended, last, time)
    raise_to(high, last)
  end
end
if marks == '1' then redis.call('SET', withdrawn, '', 'PX', '@withdrawn_ms@') end
if wakes == '1' and (held or redis.call('GET', next) == owner) then raise(pcall(wake, waiting, next)) end
raise(left, problem)
return held and 1 or 0
