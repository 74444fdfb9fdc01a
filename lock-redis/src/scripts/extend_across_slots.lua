-- KEYS: none   ARGV: lock, "owner:token:", TTL in ms, for each lock in turn
-- -> for each lock 1 if the hold lasts that long from now, 0 if the lock is not that hold's any more, nil if this
-- server does not tell: it has not the slot of the lock, or not the key while the slot moves
local answers = {}
for i = 1, #ARGV, 3 do
  local answer = extended(ARGV[i], ARGV[i + 1], ARGV[i + 2])
  -- The server checks each command that a script runs as it checks a request for the same key.
  answers[#answers + 1] = type(answer) == 'number' and answer
end
return answers
