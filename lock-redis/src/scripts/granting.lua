-- Grants a lock to the next claims. Reads and checks come before the first write, because Redis keeps the writes
-- of a script that fails midway. The counter is written next, and the lock key last.
local COUNTER_MS = '@counter_ms@' -- lifetime of a token counter after the last grant
local MAX_TOKEN = @max_token@
local MOST_LOOKS, LOOKS_OF_A_GRANT = 10000, 9

-- Returns the live holds of a value in the order of their grants, with the mark of their kind: '' if it is
-- exclusive, nil if there is no hold. The value of a foreign client counts as exclusive, with no hold in the
-- list. So does any value that is not understood to its end.
local function holds_in(value, now)
  if not value then return {} end
  local foreign = { mark = '' }
  local owner, token, label = string.match(value, '^(%x+):(%d+):%d+:(.*)$')
  if owner and #owner == 32 then
    return { mark = '', { owner = owner, token = token, slots = '', label = label } }
  end
  local mark, lines = string.match(value, '^(%*%d*)(\n.*)$')
  if not mark then return foreign end
  local holds = {}
  for line in string.gmatch(lines, '\n([^\n]*)') do
    local owner, token, expires, since, slots, label =
      string.match(line, '^(%x+):(%d+):(%d+):(%d+):([%d,]*):(.*)$')
    if not owner or #owner ~= 32 or (slots == '') ~= (mark == '*') then return foreign end
    -- C38: each hold expires by itself.
    if expires * 1000 > now then
      holds.mark = mark
      holds[#holds + 1] = { owner = owner, token = token, expires = tonumber(expires), since = since,
        slots = slots, label = label }
    end
  end
  return holds
end

-- Returns the live holds of the lock's key. A key of another type counts like a foreign client's value.
local function holds_now(now)
  local value, found = read(lock)
  return found and { mark = '' } or holds_in(value, now)
end

local function take_slots(holds, slots)
  for number in string.gmatch(slots, '%d+') do holds.taken[tonumber(number)] = true end
  while holds.taken[holds.lowest] do holds.lowest = holds.lowest + 1 end
end

-- C33, C36: returns the slots for a hold of that kind beside the present holds: the lowest free ones, as in
-- "0,2"; '' if the kind has no slots, nil if the claim must wait.
local function fits(holds, kind)
  if kind == '' then return not holds.mark and '' or nil end
  local mark, count = string.match(kind, '^(%*%d*)/?(%d*)$')
  if holds.mark and holds.mark ~= mark then return nil end
  count = tonumber(count) or 0
  if count == 0 then return '' end
  -- The taken slots stay with the holds, since a release may let in a thousand claims. All slots below `lowest` are
  -- taken.
  if not holds.taken then
    holds.taken, holds.lowest = {}, 0
    for _, hold in ipairs(holds) do take_slots(holds, hold.slots) end
  end
  local free, slot = {}, holds.lowest
  while #free < count and slot < tonumber(string.sub(mark, 2)) do
    if not holds.taken[slot] then free[#free + 1] = slot end
    slot = slot + 1
  end
  return #free == count and table.concat(free, ',') or nil
end

-- C22: returns the time, or the last token plus one if that is greater. So tokens grow even if the clock steps
-- back, the counter is lost, or a replica that was behind has an old one.
local function next_token(now)
  local last = redis.call('GET', fence)
  local counter = last and string.match(last, '^%d+$') and tonumber(last)
  -- A counter at 0 has counted no token.
  if not last or counter == 0 then return integer(now) end
  if not counter or counter >= MAX_TOKEN then
    -- A plain text, since Redis 6 supports no other errors; the dash marks the code.
    error('-COUNTER the token counter ' .. fence .. ' holds no token')
  end
  return integer(math.max(counter + 1, now))
end

local function remember_token(token, now)
  redis.call('SET', fence, token, 'PX', life_of(token, now))
end

local function leave_queue(owner)
  redis.call('HDEL', waiters, owner)
  return redis.call('ZREM', queue, owner)
end

-- Adds a hold to the list.
local function add(holds, kind, owner, token, ttl_ms, slots, label, now)
  local since = math.floor(now / 1000)
  holds.mark, holds.changed = string.match(kind, '^%*?%d*'), true
  holds.counted = true
  if holds.taken then take_slots(holds, slots) end
  -- C45: the hold keeps the time of its grant.
  holds[#holds + 1] = { owner = owner, token = token, expires = since + ttl_ms, since = integer(since),
    slots = slots, label = label }
end

-- Removes the hold of `owner`; returns 1 if there was one, else 0.
local function remove(holds, owner)
  for i, hold in ipairs(holds) do
    if hold.owner == owner then
      table.remove(holds, i)
      holds.changed, holds.taken = true, nil
      if not holds[1] then holds.mark = nil end
      return 1
    end
  end
  return 0
end

-- Writes the holds. The deletion comes first: a server out of memory allows it, and then also the rest. If a
-- token was counted, the script has already written.
local function save(holds)
  if not holds.changed then return end
  local first = holds[1]
  if not first or not holds.counted then redis.call('DEL', lock) end
  if not first then return end
  local value, last = table.concat({ first.owner, first.token, first.since, first.label }, ':'), first.expires
  if holds.mark ~= '' then
    local lines = { holds.mark }
    for _, hold in ipairs(holds) do
      lines[#lines + 1] = table.concat({ hold.owner, hold.token, digits(hold.expires), hold.since,
        hold.slots, hold.label }, ':')
      last = math.max(last, hold.expires)
    end
    value = table.concat(lines, '\n')
  end
  redis.call('SET', lock, value, 'PXAT', integer(last))
end

-- C27, C34: lets in the first waiters that fit beside the holds and each other, and notifies each of them. Stops
-- at the first waiter that must wait, and at `me`, the claim that sent this request. Returns true if nobody waits
-- before `me`; else false, and the kind and the label of that waiter, if they are known. Other clients of the server
-- wait meanwhile, so one call looks at some thousands of waiters at most; those behind them get in by their polls.
local function serve(holds, now, me)
  local looks = MOST_LOOKS
  while holds.mark ~= '' and looks > 0 do
    looks = looks - 1
    local owner = redis.call('ZRANGE', queue, '0', '0')[1]
    if not owner or owner == me then return true end
    local ttl_ms, kind, channel, label = wish(owner, now)
    -- C27: a waiter of a later version keeps its place, and asks again by itself.
    if ttl_ms == LATER then return false end
    local slots = ttl_ms and fits(holds, kind)
    if ttl_ms and not slots then return false, kind, label end
    local token = next_token(now)
    leave_queue(owner)
    if slots then
      looks = looks - LOOKS_OF_A_GRANT
      remember_token(token, now)
      -- P2: the time of the grant is its token, which is never below that time.
      local message = owner .. ':' .. token .. ':' .. ttl_ms .. ':' .. token
      if slots ~= '' then message = message .. ':' .. slots end
      -- C28: if nobody listens, the next waiter is served.
      if told(channel, message) then add(holds, kind, owner, token, ttl_ms, slots, label, now) end
    end
  end
  return false
end

-- Raises an error again, except for a key of another type or a damaged counter: every acquire of the lock reports
-- those, and they do not affect the hold that ends.
local function raise(problem)
  local text = tostring(type(problem) == 'table' and problem.err or problem)
  if not string.find(text, 'WRONGTYPE', 1, true) and not string.find(text, 'COUNTER', 1, true) then
    error(problem, 0)
  end
end

-- Lets in the waiters that now fit. A clock beyond `limit` must not make a token; the waiters then find the free
-- lock by polling. They also poll if serving them failed: the hold ends in any case.
local function pass_on(holds, now, limit)
  local went_well, problem = true, nil
  if now <= tonumber(limit) then went_well, problem = pcall(serve, holds, now) end
  save(holds)
  if not went_well then raise(problem) end
end

-- Ends the hold of `owner`; returns 1 if there was one, else 0. The caller may pass the lock's value if it has
-- read it.
local function release(owner, limit, value)
  local now = server_time()
  local holds = value and holds_in(value, now) or holds_now(now)
  local released = remove(holds, owner)
  if released == 1 then pass_on(holds, now, limit) end
  return released
end
