-- KEYS: stock, sales   ARGV: buyer
-- -> the answers of sell.lua, but it writes before it has checked that all writes can succeed
local stock, sales = KEYS[1], KEYS[2]
if tonumber(redis.call('GET', stock) or 0) <= 0 then
    return 0
end
redis.call('DECR', stock)
redis.call('RPUSH', sales, ARGV[1])
return 1
