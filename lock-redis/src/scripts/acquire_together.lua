-- Takes those of many locks of which each is the common case: it is free, and nobody waits for it. The others are
-- left as they are.
-- KEYS: each lock, whose companions are named after it, since to send them costs more than to name them here
-- ARGV: TTL in ms, label, limit of the server's clock, and the owner of each
-- -> of each its token, or false if it was left
local ttl_ms, label, limit, answers = ARGV[1], ARGV[2], ARGV[3], {}

-- C45: in ms since 1970.
local since = string.sub(now_text, 1, -4)

-- Of each lock what must not be there: itself, its queue, and the mark that its claim was withdrawn.
local obstacles, fences = {}, {}
for i = 1, #KEYS do
  local lock = KEYS[i]
  local companion = '{' .. lock .. '}:'
  obstacles[3 * i - 2], obstacles[3 * i - 1] = lock, companion .. 'queue'
  obstacles[3 * i] = companion .. 'withdrawn:' .. ARGV[i + 3]
  fences[i] = companion .. 'fence'
end
local last = redis.call('MGET', unpack(fences))
local all_are_free = redis.call('EXISTS', unpack(obstacles)) == 0

-- C22: the time, or one more than the last token where that is more; nil if that is another case.
local now = tonumber(now_text)
local function next_token(fence, last)
  if now > tonumber(limit) then return nil end
  if not last then
    -- A counter of another type counts as missing, and is not set.
    return redis.call('SET', fence, now_text, 'NX', 'PX', '@counter_ms@') and now_text or nil
  end
  local counter = string.find(last, '^%d+$') and tonumber(last)
  if not counter or counter == 0 or counter >= @max_token@ then return nil end
  local token = counter < now and now_text or integer(counter + 1)
  redis.call('SET', fence, token, 'PX', '@counter_ms@')
  return token
end

for i = 1, #KEYS do
  local lock = KEYS[i]
  local is_free = all_are_free or redis.call('EXISTS', unpack(obstacles, 3 * i - 2, 3 * i)) == 0
  local token = is_free and next_token(fences[i], last[i])
  answers[i] = false
  if token then
    local value = ARGV[i + 3] .. ':' .. token .. ':' .. since .. ':' .. label
    -- C29: as any client of Redis takes a lock. Of two that ask for one lock, the first has it.
    if redis.call('SET', lock, value, 'NX', 'PX', ttl_ms) then answers[i] = token end
  end
end
return answers
