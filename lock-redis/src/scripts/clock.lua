-- The server's time in microseconds, as text. The server puts no zeros before those of the second.
local time = redis.call('TIME')
local seconds, micros = time[1], time[2]
while #micros < 6 do micros = '0' .. micros end
local now_text = seconds .. micros

