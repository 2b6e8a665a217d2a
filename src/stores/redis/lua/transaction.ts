import { luaProlong } from './expiry.ts'

/**
 * Any transaction: reads all its limits, steps all, then writes all or nothing. A server that is out of memory refuses the
 * first write of a script or none, so that what has begun is written whole.
 */
export const luaTransaction: string = String.raw`
local trials, hashes = {}, {}
local hashCount = 0

local function openHash(key, first)
  hashCount = hashCount + 1
  local hash = hashes[hashCount] or {}
  hash.key, hash.first, hash.micros, hash.set, hash.gone = key, first, 0, {}, {}
  hashes[hashCount] = hash
  return hash
end

-- A trial for each charge, and the hashes that they fall to; used again by the next transaction.
local function takeCharges(before)
  hashCount = 0
  local hash
  for i = 1, count do
    local trial = trials[i] or {}
    trials[i] = trial
    local ask = asks[i]
    local key = KEYS[before + ask.key]
    if not hash or hash.key ~= key then hash = openHash(key, i) end
    hash.last = i
    trial.key, trial.policy, trial.field, trial.hash = key, ask.policy, fields[i], hash
    trial.cost, trial.at, trial.out = ask.cost, ask.time, ask.out
  end
end

local function fetch(hash)
  local first, last = hash.first, hash.last
  if first == last then return parse(trials[first], call('HGET', hash.key, fields[first])) end
  local values = call('HMGET', hash.key, unpack(fields, first, last))
  for i = first, last do parse(trials[i], values[i - first + 1]) end
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
  inSlices('HSET', hash.key, hash.set)
  if #hash.gone > 0 then inSlices('HDEL', hash.key, without(hash.gone, hash.set)) end
  local lasts = hash.micros / 1000000
  ${luaProlong('hash.key', 'lasts + slack', 'lasts + 2 * slack')}
end

local function decide(mode)
  local admitted = mode ~= 'refuse'
  for i = 1, count do
    local trial = trials[i]
    evaluate(trial)
    if not trial.allowed and not trial.policy.shadow then admitted = false end
  end
  for i = 1, count do conclude(trials[i], admitted, mode ~= 'peek') end
end

local function sayVerdict(trial)
  makeWords().sayAll(
    trial.allowed, trial.remaining, trial.retry, trial.reset, trial.delay, trial.told, trial.at, trial.charged
  )
end

function rare.transact(mode, before)
  if mode == 'forget' then
    call('DEL', KEYS[before + 1])
    return makeWords().say(0)
  end
  takeCharges(before)
  for i = 1, hashCount do fetch(hashes[i]) end
  local adjusts = mode == 'adjust' or mode == 'withdraw'
  if adjusts then
    for i = 1, count do adjust(trials[i], mode == 'withdraw') end
  else
    decide(mode)
  end
  for i = 1, hashCount do write(hashes[i]) end
  if adjusts then return makeWords().say(0) end
  for i = 1, count do sayVerdict(trials[i]) end
end
`
