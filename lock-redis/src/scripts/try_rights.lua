-- Tries each command that the scripts run. A server checks the user's rights before anything else.
-- ARGV: an unused key, which expires by itself; a channel of the client
-- -> the commands that the user may not run, those that the server does not have behind a '!', and '&leasehold-*' if
-- the user may not publish to the channel
local key, channel = unpack(ARGV)
local trials = {
  -- From here on the key is a string, so that commands for other types change nothing.
  { 'SET', key, '1', 'PX', '1000' }, { 'GET', key }, { 'GETEX', key }, { 'MGET', key }, { 'SETRANGE', key, '0', '1' },
  { 'INCR', key }, { 'INCRBY', key, '1' }, { 'EXISTS', key }, { 'TYPE', key }, { 'PTTL', key },
  { 'ZADD', key, '1', 'x' }, { 'ZCARD', key }, { 'ZPOPMIN', key }, { 'ZRANGE', key, '0', '0' }, { 'ZRANK', key, 'x' },
  { 'ZREM', key, 'x' }, { 'HGET', key, 'x' }, { 'HSET', key, 'x', 'x' }, { 'HDEL', key, 'x' }, { 'HVALS', key },
  { 'PEXPIRE', key, '1000' }, { 'DEL', key }, { 'TIME' }, { 'PUBLISH', channel, '' },
}
if @spread@ then
  trials[#trials + 1] = { 'PUBSUB', 'NUMSUB', channel }
  trials[#trials + 1] = { 'ASKING' }
end

local refused = {}
for _, trial in ipairs(trials) do
  local answer = redis.pcall(unpack(trial))
  local text = type(answer) == 'table' and answer.err or ''
  -- Texts of Redis 6 and 7.0, and of later versions.
  if string.find(text, "can't run this command", 1, true) or string.find(text, 'permissions to run', 1, true) then
    refused[#refused + 1] = trial[1] == 'PUBSUB' and 'PUBSUB|NUMSUB' or trial[1]
  elseif string.find(text, 'Unknown Redis command', 1, true) then
    refused[#refused + 1] = '!' .. trial[1]
  elseif trial[1] == 'PUBLISH' and string.find(text, ' channel', 1, true) then
    refused[#refused + 1] = '&leasehold-*'
  end
end
return refused
