-- KEYS: lock, fence, queue, waiters   ARGV: limit of the server's clock, first 8 digits of the owner or '' for
-- whoever holds it
-- -> {value, ms left or -1} of the hold that is over, nil if there was none
local lock, fence, queue, waiters = unpack(KEYS)
local value, kind = read(lock)
if kind then return not_a_lock(kind) end
if not value then return nil end
if ARGV[2] ~= '' and string.sub(parse(value) or '', 1, 8) ~= ARGV[2] then return nil end
local left = redis.call('PTTL', lock)
pass_on(lock, fence, queue, waiters, ARGV[1])
return { value, left }
