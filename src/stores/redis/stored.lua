-- Reads a hash, its expiry and the time. The reply has hexadecimal digits, because values are binary, and clients decode binary
-- replies differently.

local function hex(text)
  return (string.gsub(text, '.', function(each) return string.format('%02x', string.byte(each)) end))
end
local time = redis.call('TIME')
local reply = { time[1], time[2], tostring(redis.call('PTTL', KEYS[1])) }
for _, each in ipairs(redis.call('HGETALL', KEYS[1])) do reply[#reply + 1] = hex(each) end
return reply
