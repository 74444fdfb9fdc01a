-- C22: returns the next token as text: the time, or the last token plus one if that is greater. Returns nil, and
-- changes nothing, if the counter has no token, or is missing while the clock is beyond the limit.
local function counted(fence, limit)
  local last = redis.pcall('GET', fence)
  local counter = not last and 0 or type(last) == 'string' and string.find(last, '^%d+$') and tonumber(last)
  if not counter or last and counter == 0 or counter >= @max_token@ then return nil end
  if counter < tonumber(now_text) and tonumber(now_text) <= tonumber(limit) then
    redis.call('SET', fence, now_text, 'PX', '@counter_ms@')
    return now_text
  end
  if not last then return nil end
  redis.call('INCR', fence)
  -- If the clock stepped back, the counter lasts until a week after the time of its token.
  local life = string.format('%.0f', @counter_ms@ + math.max(0, counter - tonumber(now_text)) / 1000)
  -- Text, since a number of 16 digits would lose some of them in the reply.
  return redis.call('GETEX', fence, 'PX', life)
end

