-- KEYS: run, out, held, lock…
-- ARGV: the longest TTL in ms, "owner:token:" of each, the TTL of each unless all have the longest, and last the
-- server's current run
-- -> for each lock 1 if the hold now lasts for its TTL on this voter, 0 if this voter does not have it; or {'new'} or
-- {'out', ms left}
local run, out, held = unpack(KEYS)
-- A server that restarted with its file may have holds that were ended or lost since: it counts neither as having a
-- hold nor as lacking it.
local absent = absence(run, out, ARGV[#ARGV])
if absent then return absent end
outlast(held, ARGV[1])
local answers, count = {}, #KEYS - 3
local have_own_ttls = #ARGV > count + 2
for i = 1, count do
  local lock, hold, ttl_ms = KEYS[i + 3], ARGV[i + 1], have_own_ttls and ARGV[count + i + 1] or ARGV[1]
  local value = read(lock)
  -- C10: an expired hold is not restored.
  local stands = value and string.sub(value, 1, #hold) == hold
  -- An extension never shortens a hold, so that requests may overtake each other.
  if stands and redis.call('PTTL', lock) < tonumber(ttl_ms) then redis.call('PEXPIRE', lock, ttl_ms) end
  if stands and is_time_to_keep then
    keep_counter(lock)
    keep('{' .. lock .. '}:ended')
  end
  answers[i] = stands and 1 or 0
end
return answers
