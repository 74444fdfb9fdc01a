-- Acquires each lock that is free and has no waiters; skips the rest.
-- KEYS: each lock; the script derives the names of its companions, since sending them costs more
-- ARGV: TTL in ms, label, limit of the server's clock, and the owner of each
-- -> for each lock its token, or false if it was skipped
local ttl_ms, label, limit, answers = ARGV[1], ARGV[2], ARGV[3], {}

-- C45: in ms since 1970.
local since = string.sub(now_text, 1, -4)

-- Keys that must not exist for each lock: the lock, its queue, and the mark of a withdrawn claim.
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

-- C22: returns the time, or the last token plus one if that is greater; nil if this is not the common case.
local now = tonumber(now_text)
local function next_token(fence, last)
  if now > tonumber(limit) then return nil end
  if not last then
    -- A counter of another type reads as missing, and NX does not overwrite it.
    return redis.call('SET', fence, now_text, 'NX', 'PX', '@counter_ms@') and now_text or nil
  end
  local counter = string.find(last, '^%d+$') and tonumber(last)
  if not counter or counter == 0 or counter >= @max_token@ then return nil end
  local token = counter < now and now_text or integer(counter + 1)
  redis.call('SET', fence, token, 'PX', counter < now and '@counter_ms@' or life_of(counter, now))
  return token
end

for i = 1, #KEYS do
  local lock = KEYS[i]
  local is_free = all_are_free or redis.call('EXISTS', unpack(obstacles, 3 * i - 2, 3 * i)) == 0
  local token = is_free and next_token(fences[i], last[i])
  answers[i] = false
  if token then
    local value = ARGV[i + 3] .. ':' .. token .. ':' .. since .. ':' .. label
    -- C29: the same command as other Redis clients use for a lock. If two claims ask for one lock, the first gets
    -- it.
    if redis.call('SET', lock, value, 'NX', 'PX', ttl_ms) then answers[i] = token end
  end
end
return answers
