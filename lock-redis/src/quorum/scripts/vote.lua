-- KEYS: lock, fence, waiting, next, withdrawn; of the voter: run, out, held, high, floor
-- ARGV: the server's current run, owner, ballot, TTL in ms, label, channel of a waiter or ''
-- -> {'granted', token}; {'stale', counter}; {'busy', value, ms left or -1}; {'out', ms left}; {'new'};
-- {'withdrawn'}; {'no lock', type of the key}
local lock, fence, waiting, next, withdrawn, run, out, held, high, floor = unpack(KEYS)
local this_run, owner, ballot, ttl_ms, label, channel = unpack(ARGV)
-- A server that restarted or lost its data does not vote until it is let in, and its time out is over.
if redis.call('GET', run) ~= this_run then return { 'new' } end
if redis.call('EXISTS', lock, next, withdrawn, out) > 0 then
  if redis.call('EXISTS', out) == 1 then return { 'out', integer(redis.call('PTTL', out)) } end
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
  -- ballot replaces it.
  if own then value = false end
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
-- C22: a voter only grants ballots that grow.
local counter = math.max(number_at(fence), number_at(floor))
if tonumber(ballot) <= counter then return { 'stale', integer(counter) } end
local time = redis.call('TIME')
if is_far_ahead(ballot, counter, time) then
  return { err = 'CLOCK the ballot is more than a day ahead of the clock of this server' }
end
redis.call('SET', fence, ballot, 'PX', '@counter_ms@')
if number_at(high) < tonumber(ballot) then redis.call('SET', high, ballot) end
outlast(held, ttl_ms)
redis.call('DEL', next)
if channel ~= '' then redis.call('ZREM', waiting, owner .. ':' .. channel) end
-- C45: in ms since 1970. The server does not pad the microseconds with zeros.
local micros = string.rep('0', 6 - #time[2]) .. time[2]
local value = owner .. ':' .. ballot .. ':' .. time[1] .. string.sub(micros, 1, 3) .. ':' .. label
-- C29: the key that other Redis clients use as a lock. It is free here.
redis.call('SET', lock, value, 'PX', ttl_ms)
return { 'granted', ballot }
