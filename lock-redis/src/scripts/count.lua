-- C22: the next token is one more than the last. There is none by this way, and nothing changes, if the counter is
-- missing, or holds no token. `fence`, `limit` and `now_text` are known.
local token = redis.pcall('INCR', fence)
if type(token) ~= 'number' then
  token = nil
elseif token <= 1 or token >= @max_token@ then
  redis.call(token == 1 and 'DEL' or 'DECR', fence)
  token = nil
elseif @several@ and token < tonumber(now_text) and tonumber(now_text) <= tonumber(limit) then
  -- As in granting.lua.
  token = tonumber(now_text)
  redis.call('SET', fence, now_text, 'PX', '@counter_ms@')
end

