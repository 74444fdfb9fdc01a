-- The server's time in microseconds, as text. The server does not pad the microseconds of the second with zeros.
local time = redis.call('TIME')
local seconds, micros = time[1], time[2]
while #micros < 6 do micros = '0' .. micros end
local now_text = seconds .. micros

