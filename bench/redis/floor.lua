-- One limit, decided by the server's clock: a hash, a field in it, an expiry. What a decision in a script cannot do without.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local held = tonumber(redis.call('HGET', KEYS[1], 'limit') or 0)
local next = math.max(held, now) + tonumber(ARGV[1])
if next - now > tonumber(ARGV[2]) then return { 0, next - now - tonumber(ARGV[2]) } end
redis.call('HSET', KEYS[1], 'limit', string.format('%.0f', next))
redis.call('PEXPIRE', KEYS[1], math.ceil((next - now) / 1000) + 1000)
return { 1, next - now }
