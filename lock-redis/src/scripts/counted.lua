-- C22: the next token, which is one more than the last. nil, and nothing changes, if the counter is missing, or holds no
-- token.
local function counted(fence, limit)
  local token = redis.pcall('INCR', fence)
  if type(token) ~= 'number' then return nil end
  if token <= 1 or token >= @max_token@ then
    redis.call(token == 1 and 'DEL' or 'DECR', fence)
    return nil
  end
  if @several@ and token < tonumber(now_text) and tonumber(now_text) <= tonumber(limit) then
    -- As in granting.lua.
    token = tonumber(now_text)
    redis.call('SET', fence, now_text, 'PX', '@counter_ms@')
  end
  return token
end

