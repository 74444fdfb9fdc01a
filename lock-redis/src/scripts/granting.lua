-- Grants a lock to the next.
-- Read and check before the first write: Redis keeps the writes of a script that fails midway. Then write
-- the counter, and the lock key last.
local COUNTER_MS = '@counter_ms@' -- a token counter outlasts the last grant for so long
local MAX_TOKEN = @max_token@

-- The live holds of a value, in the order of their grants, with the mark of their kind: '' if it is exclusive,
-- nil if there is none. A foreign client's value is exclusive, and has no hold that we know. So is any value that is
-- not understood to its end.
local function holds_in(value, now)
  if not value then return {} end
  local foreign = { mark = '' }
  local owner, token, rest = string.match(value, '^(%x+):(%d+):(.*)$')
  if owner and #owner == 32 then
    local label = string.match(rest, '^%d+:(.*)$') or rest
    return { mark = '', { owner = owner, token = token, slots = '', label = label } }
  end
  local mark, lines = string.match(value, '^(%*%d*)(\n.*)$')
  if not mark then return foreign end
  local holds = {}
  for line in string.gmatch(lines, '\n([^\n]*)') do
    local owner, token, expires, since, slots, label =
      string.match(line, '^(%x+):(%d+):(%d+):(%d+):([%d,]*):(.*)$')
    if not owner or #owner ~= 32 or (slots == '') ~= (mark == '*') then return foreign end
    -- C38: each ends by itself.
    if expires * 1000 > now then
      holds.mark = mark
      holds[#holds + 1] = { owner = owner, token = token, expires = tonumber(expires), since = since,
        slots = slots, label = label }
    end
  end
  return holds
end

-- The same of the lock's key. One of another type is like a foreign client's.
local function holds_now(now)
  local value, found = read(lock)
  return found and { mark = '' } or holds_in(value, now)
end

-- C33, C36: the slots of a hold of that kind beside the others, the lowest that are free, as in "0,2"; '' if
-- it has none, nil if it has to wait.
local function fits(holds, kind)
  if kind == '' then return not holds.mark and '' or nil end
  local mark, count = string.match(kind, '^(%*%d*)/?(%d*)$')
  if holds.mark and holds.mark ~= mark then return nil end
  local taken, free, slot = {}, {}, 0
  for _, hold in ipairs(holds) do
    for number in string.gmatch(hold.slots, '%d+') do taken[tonumber(number)] = true end
  end
  count = tonumber(count) or 0
  while #free < count and slot < tonumber(string.sub(mark, 2)) do
    if not taken[slot] then free[#free + 1] = slot end
    slot = slot + 1
  end
  return #free == count and table.concat(free, ',') or nil
end

-- C33: how many permits the lock has, if that is another number than that of the kind.
local function conflict(holds, kind)
  local asked = string.match(kind, '^%*(%d+)')
  local held = asked and string.match(holds.mark or '', '%d+')
  return held ~= asked and held or nil
end

-- C22: the time, or one more than the last token where that is more. So tokens grow when the clock steps back, and when
-- the counter is lost or is that of a replica that was behind.
local function next_token(now)
  local last = redis.call('GET', fence)
  local counter = last and string.match(last, '^%d+$') and tonumber(last)
  -- A counter at 0 has counted nothing.
  if not last or counter == 0 then return integer(now) end
  if not counter or counter >= MAX_TOKEN then
    -- A plain text, since Redis 6 knows no other errors; the dash marks the code.
    error('-COUNTER the token counter ' .. fence .. ' holds no token')
  end
  return integer(math.max(counter + 1, now))
end

local function remember_token(token)
  redis.call('SET', fence, token, 'PX', COUNTER_MS)
end

local function leave_queue(owner)
  redis.call('HDEL', waiters, owner)
  return redis.call('ZREM', queue, owner)
end

-- Adds a hold to those there are.
local function add(holds, kind, owner, token, ttl_ms, slots, label, now)
  local since = math.floor(now / 1000)
  holds.mark, holds.changed = string.match(kind, '^%*?%d*'), true
  holds.counted = true
  -- C45: the time of the grant stays with the hold.
  holds[#holds + 1] = { owner = owner, token = token, expires = since + ttl_ms, since = integer(since),
    slots = slots, label = label }
end

-- Takes out the hold of `owner`: 1 if there was one, else 0.
local function remove(holds, owner)
  for i, hold in ipairs(holds) do
    if hold.owner == owner then
      table.remove(holds, i)
      holds.changed = true
      if not holds[1] then holds.mark = nil end
      return 1
    end
  end
  return 0
end

-- Writes who holds the lock now. To delete comes first: a server out of memory allows it, and then the rest. Where
-- a token was counted, something is written already.
local function save(holds)
  if not holds.changed then return end
  local first = holds[1]
  if not first or not holds.counted then redis.call('DEL', lock) end
  if not first then return end
  local value, last = table.concat({ first.owner, first.token, first.since, first.label }, ':'), first.expires
  if holds.mark ~= '' then
    local lines = { holds.mark }
    for _, hold in ipairs(holds) do
      lines[#lines + 1] = table.concat({ hold.owner, hold.token, integer(hold.expires), hold.since,
        hold.slots, hold.label }, ':')
      last = math.max(last, hold.expires)
    end
    value = table.concat(lines, '\n')
  end
  redis.call('SET', lock, value, 'PXAT', integer(last))
end

-- C27, C34: lets in those at the head of the queue that fit beside the holds and each other, and tells each of
-- them so. It goes no further than to the first that has to wait, and to `me`, who asks for itself. Returns
-- whether nobody waits before `me`.
local function serve(holds, now, me)
  while holds.mark ~= '' do
    local owner = redis.call('ZRANGE', queue, '0', '0')[1]
    if not owner or owner == me then return true end
    local ttl_ms, kind, channel, label = wish(owner, now)
    -- C27: one of a later version keeps its place, and asks by itself.
    if ttl_ms == LATER then return false end
    local slots = ttl_ms and fits(holds, kind)
    -- C33: who is refused is not waited for. It learns that when it asks.
    if ttl_ms and not slots and not conflict(holds, kind) then return false end
    local token = next_token(now)
    leave_queue(owner)
    if slots then
      remember_token(token)
      -- P2: made at its token, which is the time or more.
      local message = owner .. ':' .. token .. ':' .. ttl_ms .. ':' .. token
      if slots ~= '' then message = message .. ':' .. slots end
      -- C28: if nobody listens, the next waiter is served.
      if told(channel, message) then add(holds, kind, owner, token, ttl_ms, slots, label, now) end
    end
  end
  return false
end

-- Raises an error again, but not where a key of another type is in the way, or the counter is damaged: that is told to
-- all who ask for the lock, and is no matter of the hold that ends.
local function raise(problem)
  local text = tostring(type(problem) == 'table' and problem.err or problem)
  if not string.find(text, 'WRONGTYPE', 1, true) and not string.find(text, 'COUNTER', 1, true) then
    error(problem, 0)
  end
end

-- Lets in who fits now. When the clock is beyond `limit` it must not make a token; then the waiters find what is
-- free by themselves. So they do if they cannot be served: a hold that ends is over all the same.
local function pass_on(holds, now, limit)
  local went_well, problem = true, nil
  if now <= tonumber(limit) then went_well, problem = pcall(serve, holds, now) end
  save(holds)
  if not went_well then raise(problem) end
end

-- Ends the hold of `owner`, if `owner` holds the lock: 1 if it did, else 0. The lock's value may be known.
local function release(owner, limit, value)
  local now = server_time()
  local holds = value and holds_in(value, now) or holds_now(now)
  local released = remove(holds, owner)
  if released == 1 then pass_on(holds, now, limit) end
  return released
end
