-- KEYS: stock, sales   ARGV: buyer
-- -> 1 if one was sold to the buyer, 0 if none is left, or an error; nothing was written except with 1
local stock, sales = KEYS[1], KEYS[2]

-- Check first: Redis rolls nothing back when a script fails midway.
local kind = redis.call('TYPE', sales).ok
if kind ~= 'list' and kind ~= 'none' then
    return redis.error_reply('the sales are kept in a ' .. kind .. ', not in a list')
end
local left = tonumber(redis.call('GET', stock) or 0)
if not left then
    return redis.error_reply('the stock is not a number')
end
if left <= 0 then
    return 0
end

-- Write last.
redis.call('DECR', stock)
redis.call('RPUSH', sales, ARGV[1])
return 1
