end

-- KEYS: (lock, fence, queue, waiters, withdrawn)…
-- ARGV: limit of the server's clock, (owner, TTL in ms, label, kind or '')…
-- -> {token, slots or ''} of each granted claim, up to the first that was not granted
local limit, grants = ARGV[1], {}
for i = 1, #KEYS / 5 do
  local keys = { unpack(KEYS, 5 * i - 4, 5 * i) }
  local owner, ttl_ms, label, kind = unpack(ARGV, 4 * i - 2, 4 * i + 1)
  lock, fence, queue, waiters = unpack(keys)
  -- An error stops the loop as a busy lock does, so that the answer has the earlier grants.
  local went_well, answer = pcall(acquire, keys, { owner, ttl_ms, label, '', limit, kind })
  if type(answer) == 'string' then answer = { answer, '' } end
  -- C39: stops at the first claim that is refused.
  if not went_well or #answer ~= 2 then break end
  grants[i] = answer
end
return grants
