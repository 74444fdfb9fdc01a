-- Takes those of many locks of which each is the common case: it is free, nobody waits for it, and its counter
-- is there. The others are left as they are.
-- KEYS: lock, queue and withdrawn of each in turn, and behind them the fence of each
-- ARGV: TTL in ms, label, and the owner of each
-- -> of each its token, or false if it was left
local ttl_ms, label, count, answers = ARGV[1], ARGV[2], #ARGV - 2, {}

-- C45: in ms since 1970. The server puts no zeros before the microseconds.
local seconds, micros = unpack(redis.call('TIME'))
local since = seconds .. string.sub(string.rep('0', 6 - #micros) .. micros, 1, 3)
local last = redis.call('MGET', unpack(KEYS, 3 * count + 1))
local all_are_free = redis.call('EXISTS', unpack(KEYS, 1, 3 * count)) == 0

for i = 1, count do
  local lock, queue, withdrawn = unpack(KEYS, 3 * i - 2, 3 * i)
  local is_free = all_are_free or redis.call('EXISTS', lock, queue, withdrawn) == 0
  local counter = is_free and string.find(last[i] or '', '^%d+$') and tonumber(last[i])
  answers[i] = false
  if counter and counter < @max_token@ then
    -- C22: one more than the last token.
    local token = string.format('%.0f', counter + 1)
    local value = ARGV[i + 2] .. ':' .. token .. ':' .. since .. ':' .. label
    redis.call('SET', KEYS[3 * count + i], token, 'PX', @counter_ms@)
    -- C29: as any client of Redis takes a lock. Of two that ask for one lock, the first has it.
    if redis.call('SET', lock, value, 'NX', 'PX', ttl_ms) then answers[i] = token end
  end
end
return answers
