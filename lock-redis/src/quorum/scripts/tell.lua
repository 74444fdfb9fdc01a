-- KEYS: run, out, held, high, floor
-- -> the run of the server that was let in or '', ms for which holds that it granted may last, its greatest ballot.
-- The floor that it was given when it was let in counts as its own ballot.
local run, out, held, high, floor = unpack(KEYS)
local left = math.max(redis.call('PTTL', held), redis.call('PTTL', out), 0)
local greatest = math.max(number_at(high), number_at(floor))
return { redis.call('GET', run) or '', integer(left), integer(greatest) }
