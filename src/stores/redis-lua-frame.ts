/** What comes first: short names, and the arguments that all transactions share. */
export const luaHead: string = String.raw`
local call = redis.call
local floor, ceil, max, min, huge = math.floor, math.ceil, math.max, math.min, math.huge
local pack, unpacked, sub, find = struct.pack, struct.unpack, string.sub, string.find

local position = 2
local function text()
  position = position + 1
  return ARGV[position]
end
local function number()
  position = position + 1
  return tonumber(ARGV[position])
end

local now = tonumber(ARGV[1])
if not now then
  local time = call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end
local slack = tonumber(ARGV[2])
`

/** The limits that are spoken of, and the charges of one transaction after another. */
export const luaArguments: string = String.raw`
local policies = {}
for i = 1, number() do
  local policy = { field = text(), signature = text(), shadow = text() == '1', block = number(), kind = kindNamed(text()) }
  local p = { strict = number(), perMs = number() }
  local names = policy.kind.parameters
  for j = 1, #names do p[names[j]] = number() end
  policy.p, policy.strict = p, p.strict == 1
  policies[i] = policy
end

-- The trials of one transaction, and the hashes they fall to; used again by the next.
local trials, hashes = {}, {}
local trialCount, hashCount = 0, 0

local function openHash(key, first)
  hashCount = hashCount + 1
  local hash = hashes[hashCount] or {}
  hash.key, hash.first, hash.micros, hash.set, hash.gone = key, first, 0, {}, {}
  hashes[hashCount] = hash
  return hash
end

local function takeCharges(mode)
  trialCount, hashCount = number(), 0
  local hash
  for i = 1, trialCount do
    local trial = trials[i] or newTrial()
    trials[i] = trial
    local key, policy = KEYS[number()], policies[number()]
    if not hash or hash.key ~= key then hash = openHash(key, i) end
    hash.last = i
    trial.key, trial.policy, trial.field, trial.hash = key, policy, policy.field, hash
    if mode == 'adjust' then trial.units, trial.at = number(), number() else trial.cost = number() end
  end
end

`

/**
 * A transaction: reads all its limits, steps all, then writes all or nothing. A server that is out of memory refuses the
 * first write of a script or none, so that what has begun is written whole.
 */
export const luaTransactions: string = String.raw`
local function fetch(hash)
  local first, last = hash.first, hash.last
  if first == last then return parse(trials[first], call('HGET', hash.key, trials[first].field)) end
  local fields = {}
  for i = first, last do fields[i - first + 1] = trials[i].field end
  local values = call('HMGET', hash.key, unpack(fields))
  for i = first, last do parse(trials[i], values[i - first + 1]) end
end

local expiries = {}

-- In slices: a log may have more fields than the stack has room for.
local function inSlices(command, key, list)
  for i = 1, #list, 2000 do call(command, key, unpack(list, i, min(i + 1999, #list))) end
end

-- Fields that fall away, but for those that are written anew.
local function without(gone, set)
  local written, rest = {}, {}
  for i = 1, #set, 2 do written[set[i]] = true end
  for _, field in ipairs(gone) do
    if not written[field] then rest[#rest + 1] = field end
  end
  return rest
end

local function write(hash)
  if #hash.set == 0 then return end
  expiries[hash.key] = max(expiries[hash.key] or 0, hash.micros)
  inSlices('HSET', hash.key, hash.set)
  if #hash.gone > 0 then inSlices('HDEL', hash.key, without(hash.gone, hash.set)) end
end

local function decide(mode)
  local admitted = mode ~= 'refuse'
  for i = 1, trialCount do
    local trial = trials[i]
    evaluate(trial)
    if not trial.allowed and not trial.policy.shadow then admitted = false end
  end
  for i = 1, trialCount do conclude(trials[i], admitted, mode ~= 'peek') end
end

local function perform(mode)
  for i = 1, hashCount do fetch(hashes[i]) end
  if mode == 'adjust' then
    for i = 1, trialCount do adjust(trials[i]) end
  else
    decide(mode)
  end
  for i = 1, hashCount do write(hashes[i]) end
end

`

/** What comes last: one transaction after another, its answer, and expiry. One that fails leaves the others alone. */
export const luaReply: string = String.raw`
local reply, said = {}, 0
local function say(value)
  -- Whole numbers go as they are; a reply would cut off the rest of others.
  if value == huge then value = -1 elseif value % 1 ~= 0 then value = string.format('%.17g', value) end
  said = said + 1
  reply[said] = value
end

local function sayVerdict(trial)
  say(trial.allowed and 1 or 0)
  say(trial.remaining)
  say(trial.retry)
  say(trial.reset)
  say(trial.delay)
  say(trial.told)
  say(trial.at)
  say(trial.charged)
end

local function sayFailure(failure)
  -- A step that failed may have left the parameters as it had borrowed them.
  for _, policy in ipairs(policies) do policy.p.strict = policy.strict and 1 or 0 end
  said = said + 1
  reply[said] = tostring(type(failure) == 'table' and failure.err or failure)
end

for _ = 1, number() do
  local mode = text()
  local done, failure
  if mode == 'forget' then
    done, failure = pcall(call, 'DEL', KEYS[number()])
  else
    takeCharges(mode)
    done, failure = pcall(perform, mode)
  end
  if not done then
    sayFailure(failure)
  else
    say(0)
    if mode ~= 'forget' and mode ~= 'adjust' then
      for i = 1, trialCount do sayVerdict(trials[i]) end
    end
  end
end

for key, micros in pairs(expiries) do
  local needed = ceil(micros / 1000) + slack
  if call('PTTL', key) < needed then call('PEXPIRE', key, needed + slack) end
end
return reply
`
