-- Shared part of a voter's programs: see the documentation of the quorum for the keys.

-- A call without keys lets the server learn the program, and runs nothing.
if #KEYS == 0 then return end

-- A number that a key holds; 0 if there is none.
local function number_at(key)
  local text = redis.call('GET', key)
  if text and not string.match(text, '^%d+$') then
    error('COUNTER the key ' .. key .. ' holds no ballot', 0)
  end
  return tonumber(text or '0')
end

-- Returns true if a ballot comes from a clock that nobody keeps right: nothing could exceed it for years.
local function is_far_ahead(ballot, counter, time)
  return tonumber(ballot) > math.max(counter, time[1] * 1000000) + @day_us@
end

-- Lifts a lock's counter: it never falls.
local function lift(fence, ballot)
  local counter = number_at(fence)
  if counter < tonumber(ballot) and not is_far_ahead(ballot, counter, redis.call('TIME')) then
    redis.call('SET', fence, ballot, 'PX', '@counter_ms@')
  end
end

-- The key of the voter that outlasts each of its holds. To write it seldom, it lasts for a quarter more.
local function outlast(held, ttl_ms)
  if redis.call('PTTL', held) < tonumber(ttl_ms) then
    redis.call('SET', held, '', 'PX', integer(math.ceil(ttl_ms * 1.25)))
  end
end

-- Ends a script with what went wrong in a part of it; a key of another type in the way of the waiters is no matter.
local function raise(went_well, problem)
  if went_well then return end
  local text = tostring(type(problem) == 'table' and problem.err or problem)
  if not string.find(text, 'WRONGTYPE', 1, true) then error(problem, 0) end
end

-- Wakes the first waiter that somebody hears for, and keeps newcomers out until it has had the time to come.
local function wake(waiting, next)
  redis.call('DEL', next)
  local head = redis.call('ZPOPMIN', waiting)[1]
  while head do
    local owner, channel = string.match(head, '^(%x+):(.*)$')
    if owner and redis.call('PUBLISH', channel, owner) > 0 then
      redis.call('SET', next, owner, 'PX', '@woken_ms@')
      return
    end
    head = redis.call('ZPOPMIN', waiting)[1]
  end
end
