-- What a call shares between its functions, and what is found by a signature.

local call = redis.call
local pack, unpacked = struct.pack, struct.unpack
local byte, find, format, gmatch, match = string.byte, string.find, string.format, string.gmatch, string.match
local rep, sub, concat = string.rep, string.sub, table.concat

-- Of the call that is running: its keys and arguments, the time, for how many seconds clocks may differ, the second that any of them
-- may show, its reply, and the charge whose algorithm runs.
local keys, args, now, second, millis, slack, latest, isForeign, current
local reply, replied = {}, 0

-- The plan that is carried out, its charges, how many they are, those of each key, how many keys there are, whether nothing has
-- denied yet, and whether anything is written.
local plan, attempts, total, groups, width, admits, writes

-- What was read before, by its text: at most 1,000 of a kind.
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
  local params = { perMs = words[1] == '' and 1000 or numberIn(words[1]), strict = strict }
  for i, name in ipairs(kind.parameters) do params[name] = numberIn(words[i + 1]) end
  return params
end

-- The parameters in a signature. A variant is '' or 'strict'; each has a table of its own.
local function parametersOf(kind, signature, variant)
  local text = signature .. ';' .. variant
  return derived.values[text]
    or remember(derived, text, readParameters(kind, signature, variant == 'strict' and 1 or 0))
end

local function kindOf(signature)
  return kinds[match(signature, '^[^,]*')]
end

-- The functions of an algorithm, made when they are first needed: a text that fails then fails its own transactions.
local function twinOf(kind)
  if not kind.twin then kind.twin = kind.load() end
  return kind.twin
end

-- The reply of a call, which `request.ts` reads. A charge that was made as requested, or that was denied, has a short form.

-- Adds a number. Whole ones go as they are; a reply would cut off the rest of others.
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

-- Notes what the short form of a reply has no room for, once it is known to be numbers.
local function noteDetails(attempt, at, retry, delay, charged)
  if not (attempt.remaining > -huge and attempt.reset < huge and retry >= 0 and at < huge and delay < huge and charged < huge) then
    error('the result is not a number', 0)
  end
  attempt.isDetailed, attempt.at, attempt.delay, attempt.charged, attempt.lockedFor = true, at, delay, charged, 0
end
