-- KEYS: lock, fence, waiting, next, withdrawn, ended; of the voter: run, out, held, high, floor
-- ARGV: the server's current run, owner, ballot, TTL in ms, label, channel of a waiter or '', '1' to restore a hold
-- that a majority has
-- -> {'granted', token}; {'stale', counter}; {'busy', value, ms left or -1}; {'out', ms left}; {'new'};
-- {'withdrawn'}; {'no lock', type of the key}
local lock, fence, waiting, next, withdrawn, ended, run, out, held, high, floor = unpack(KEYS)
local this_run, owner, ballot, ttl_ms, label, channel, restores = unpack(ARGV)
-- A server that restarted or lost its data does not vote until it is let in, and its time out is over.
local absent = absence(run, out, this_run)
if absent then return absent end
local proposed = tonumber(ballot)
if redis.call('EXISTS', lock, next, withdrawn) > 0 then
  -- C19: a request that arrives after its withdrawal is refused.
  if redis.call('EXISTS', withdrawn) == 1 then return { 'withdrawn' } end
  local value, found = read(lock)
  -- C49: a key of another type is not written by clients of locks.
  if found then return { 'no lock', found } end
  local own = value and string.sub(value, 1, 33) == owner .. ':' and string.match(value, '^%x+:(%d+):')
  if own == ballot then
    -- C16: a repeated request finds its own vote.
    if redis.call('PTTL', lock) < tonumber(ttl_ms) then redis.call('PEXPIRE', lock, ttl_ms) end
    outlast(held, ttl_ms)
    return { 'granted', ballot }
  end
  -- S3: a vote for an earlier attempt of the owner does not count: it may be given back at any time. A greater
  -- ballot replaces it, but no hold is restored in place of a later attempt.
  if own and (restores ~= '1' or tonumber(own) < proposed) then value = false end
  local woken = redis.call('GET', next)
  if value or (woken and woken ~= owner) then
    if channel ~= '' then
      local time = redis.call('TIME')
      redis.call('ZADD', waiting, 'NX', time[1] * 1000000 + time[2], owner .. ':' .. channel)
      redis.call('PEXPIRE', waiting, '@liveness_ms@')
    end
    return { 'busy', value or woken, integer(redis.call('PTTL', value and lock or next)) }
  end
end
local counter = number_at(fence)
local least = math.max(counter, number_at(floor))
-- C22: a voter only grants ballots that grow. A hold that a majority has is no new grant: candidates have raised the
-- counter above its ballot since, and others the floor. C11: what ended here is not restored.
local last = restores == '1' and number_at(ended) or least
if proposed <= last then return { 'stale', integer(least) } end
local time = redis.call('TIME')
if is_far_ahead(proposed, least, time) then
  return { err = 'CLOCK the ballot is more than a day ahead of the clock of this server' }
end
raise_to(fence, proposed, time)
raise_to(high, proposed)
outlast(held, ttl_ms)
redis.call('DEL', next)
if channel ~= '' then redis.call('ZREM', waiting, owner .. ':' .. channel) end
-- C45: in ms since 1970. The server does not pad the microseconds with zeros.
local micros = string.rep('0', 6 - #time[2]) .. time[2]
local value = owner .. ':' .. ballot .. ':' .. time[1] .. string.sub(micros, 1, 3) .. ':' .. label
-- C29: the key that other Redis clients use as a lock. It is free here.
redis.call('SET', lock, value, 'PX', ttl_ms)
return { 'granted', ballot }
