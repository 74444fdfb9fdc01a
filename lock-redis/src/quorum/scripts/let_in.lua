-- KEYS: run, out, held, floor   ARGV: the server's current run, time in ms that it stays out, floor
-- -> nothing
local run, out, held, floor = unpack(KEYS)
local this_run, out_ms, ballot = unpack(ARGV)
-- Another client may have let this run in already.
if redis.call('GET', run) == this_run then return end
local left = math.max(tonumber(out_ms), redis.call('PTTL', held))
if left > 0 then redis.call('SET', out, '', 'PX', integer(left)) end
raise_to(floor, tonumber(ballot))
redis.call('SET', run, this_run)
