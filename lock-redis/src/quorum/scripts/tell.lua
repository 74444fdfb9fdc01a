-- KEYS: run, out, held, high, floor
-- -> the run of the server that was let in or '', ms for which holds that it granted may last, its greatest ballot,
-- ms for which it is out.
-- The floor that it was given when it was let in counts as its own ballot.
local run, out, held, high, floor = unpack(KEYS)
local out_ms = math.max(redis.call('PTTL', out), 0)
local left = math.max(redis.call('PTTL', held), out_ms)
local greatest = math.max(number_at(high), number_at(floor))
return { redis.call('GET', run) or '', integer(left), integer(greatest), integer(out_ms) }
