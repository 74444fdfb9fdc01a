-- Shared part of a voter's programs. The documentation of the quorum describes the keys.

-- A call without keys only loads the program into the server.
if #KEYS == 0 then return end

-- Returns the number in a key; 0 if it is missing.
local function number_at(key)
  local text = redis.call('GET', key)
  if text and not string.match(text, '^%d+$') then
    error('COUNTER the key ' .. key .. ' holds no ballot', 0)
  end
  return tonumber(text or '0')
end

-- Raises the ballot in a key, which never falls. The key lasts forever, or if the server's time is given, as long as
-- a token counter.
local function raise_to(key, ballot, time)
  if number_at(key) >= ballot then return end
  if not time then return redis.call('SET', key, integer(ballot)) end
  redis.call('SET', key, integer(ballot), 'PX', life_of(ballot, time[1] * 1000000 + time[2]))
end

-- Returns true if a ballot comes from a clock that is far off: no ballot could exceed it for years.
local function is_far_ahead(ballot, counter, time)
  return ballot > math.max(counter, time[1] * 1000000) + @day_us@
end

-- Returns the answer of a server that counts for nobody: this run of it was not let in, or its time out is not over.
local function absence(run, out, this_run)
  if redis.call('GET', run) ~= this_run then return { 'new' } end
  local left = redis.call('PTTL', out)
  if left ~= -2 then return { 'out', integer(left) } end
end

-- Extends the voter's key that outlasts each of its holds. It lasts a quarter longer, to be written seldom.
local function outlast(held, ttl_ms)
  if redis.call('PTTL', held) < tonumber(ttl_ms) then
    redis.call('SET', held, '', 'PX', integer(math.ceil(ttl_ms * 1.25)))
  end
end

-- Ends a script with the error of one of its parts. Ignores a key of another type in place of the waiters.
local function raise(went_well, problem)
  if went_well then return end
  local text = tostring(type(problem) == 'table' and problem.err or problem)
  if not string.find(text, 'WRONGTYPE', 1, true) then error(problem, 0) end
end

-- Wakes the first waiter that anybody listens for, and keeps newcomers out for the time that it needs to ask.
local function wake(waiting, next)
  redis.call('DEL', next)
  local head = redis.call('ZPOPMIN', waiting)[1]
  while head do
    local owner, channel = string.match(head, '^(%x+):(leasehold%-%x+)$')
    if owner and redis.call('PUBLISH', channel, owner) > 0 then
      redis.call('SET', next, owner, 'PX', '@woken_ms@')
      return
    end
    head = redis.call('ZPOPMIN', waiting)[1]
  end
end
