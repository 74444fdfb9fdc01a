-- Releases each lock that its owner holds and that has no waiters; skips the rest.
-- KEYS: each lock; the script derives the name of its queue   ARGV: the owner of each
-- -> for each lock 1 if this ended the owner's hold, or false if it was skipped
local queues, answers, ended = {}, {}, {}
for i = 1, #KEYS do queues[i] = '{' .. KEYS[i] .. '}:queue' end

-- A key of another type counts as missing.
local held = redis.call('MGET', unpack(KEYS))
local none_is_wanted = redis.call('EXISTS', unpack(queues)) == 0
for i = 1, #KEYS do
  local lock = KEYS[i]
  local is_own = held[i] and string.find(held[i], ARGV[i], 1, true) == 1
  answers[i] = false
  if is_own and (none_is_wanted or redis.call('EXISTS', queues[i]) == 0) then
    answers[i] = 1
    ended[#ended + 1] = lock
  end
end
if ended[1] then redis.call('DEL', unpack(ended)) end
return answers
