-- Registers the program as a library. A call that is killed or fails may leave its tables in a wrong state, so the next call builds the program
-- again.

local decide, isWhole

local function run(keys, args)
  if not isWhole then decide = build() end
  isWhole = false
  local reply = decide(keys, args)
  isWhole = true
  return reply
end

redis.register_function(NAME, run)
redis.register_function{ function_name = NAME .. '_peek', callback = run, flags = { 'no-writes' } }
