-- KEYS: run, out, held, high, floor
-- -> which run of the server was let in or '', for how many ms holds may last that it granted, its greatest
-- ballot. What it was told when it was let in counts as its own.
local run, out, held, high, floor = unpack(KEYS)
local left = math.max(redis.call('PTTL', held), redis.call('PTTL', out), 0)
local greatest = math.max(number_at(high), number_at(floor))
return { redis.call('GET', run) or '', integer(left), integer(greatest) }
