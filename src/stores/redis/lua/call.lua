-- Variables of the running call, and tables that are found by a signature.

local call = redis.call
local pack, unpacked = struct.pack, struct.unpack
local byte, find, format, gmatch, match = string.byte, string.find, string.format, string.gmatch, string.match
local rep, sub, concat = string.rep, string.sub, table.concat

-- The running call: its keys and arguments, the time, the seconds by which clocks may differ (`slack`), the latest second that any of these clocks
-- may show, and the charge whose algorithm runs; its reply.
local keys, args, now, second, millis, slack, latest, isForeign, current
local reply, replied = {}, 0

-- The present plan, its charges, their number, the charges of each key, the number of keys, whether nothing has denied yet, and whether the plan
-- writes.
local plan, attempts, total, groups, width, admits, writes

-- Caches of texts that were read, with at most 1,000 texts each.
local function newCache() return { size = 0, values = {} } end

local function remember(cache, text, value)
  if cache.size >= 1000 then cache.size, cache.values = 0, {} end
  cache.size = cache.size + 1
  cache.values[text] = value
  return value
end

local derived = newCache()

local function numberIn(word)
  if word == '' then return 0 end
  return tonumber(word, 36) or tonumber(sub(word, 2))
end

local function readParameters(kind, signature, strict)
  local words = { match(signature, rep(',([^,]*)', #kind.parameters + 1)) }
  if #words == 0 then error({ err = 'DAMAGED_ROW' }) end
  local params = { perMs = words[1] == '' and 1000 or numberIn(words[1]), strict = strict }
  for i, name in ipairs(kind.parameters) do params[name] = numberIn(words[i + 1]) end
  return params
end

-- Returns the parameters in a signature. The variant is '' or 'strict'. Each variant has its own table.
local function parametersOf(kind, signature, variant)
  local text = signature .. ';' .. variant
  return derived.values[text]
    or remember(derived, text, readParameters(kind, signature, variant == 'strict' and 1 or 0))
end

local function kindOf(signature)
  return kinds[match(signature, '^[^,]*')]
end

-- Returns the functions of an algorithm. They are made when they are first needed, so that a text that fails only fails its own transactions.
local function twinOf(kind)
  if not kind.twin then kind.twin = kind.load() end
  return kind.twin
end

-- The reply of a call, which `request.ts` reads. A charge that was made as requested, or that was denied, has a short form.

-- Adds a number. A number that is not whole becomes a text, because a reply would cut off its fraction.
local function addReply(value)
  if value == huge then value = -1 elseif type(value) == 'number' and value % 1 ~= 0 then value = format('%.17g', value) end
  replied = replied + 1
  reply[replied] = value
end

local function replyInFull(attempt, isCharged, retry)
  reply[replied + 1] = -3
  replied = replied + 1
  addReply(attempt.allowed and 1 or 0)
  addReply(attempt.remaining)
  addReply(retry)
  addReply(attempt.reset)
  addReply(attempt.delay)
  addReply(attempt.lockedFor)
  addReply(isCharged and attempt.at or 0)
  addReply(isCharged and attempt.charged or 0)
end

-- Stores the values that the short form of a reply has no room for. Fails if one is not a number.
local function noteDetails(attempt, at, retry, delay, charged)
  if not (attempt.remaining > -huge and attempt.reset < huge and retry >= 0 and at < huge and delay < huge and charged < huge) then
    error('the result is not a number', 0)
  end
  attempt.isDetailed, attempt.at, attempt.delay, attempt.charged, attempt.lockedFor = true, at, delay, charged, 0
end
