-- KEYS: lock…   ARGV: "owner:token:", TTL in ms, for each lock in turn
-- -> for each lock 1 if the hold lasts that long from now, 0 if the lock is not that hold's any more
local answers = {}
for i, lock in ipairs(KEYS) do
  local answer = extended(lock, ARGV[2 * i - 1], ARGV[2 * i])
  if type(answer) == 'table' then return answer end
  answers[i] = answer
end
return answers
