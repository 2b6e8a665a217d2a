-- Reads the arguments of a call and decides its transactions one after another. A transaction that fails does not affect the others.
--
-- A plan is the text of a transaction: its mode, and a line for each charge. It is one argument, so that it is only read once and then found by its
-- text.

local plans = newCache()

local changesOf = { adjust = adjust, release = adjust, renew = renew, lock = lock, extend = lock }

local function readGrowth(text)
  local after, factor, upTo, memory = match(text, '^([^;]+);([^;]+);([^;]+);([^;]+)$')
  return { after = tonumber(after), factor = tonumber(factor), upTo = tonumber(upTo), memory = tonumber(memory) }
end

local function readCharge(line)
  local key, cost, name, signature, mark, block, growth =
    match(line, '^(%d+)\t([^\t]*)\t([^\t]*)\t([^;]*);?(%a*);?(%d*);?(.*)$')
  return {
    key = tonumber(key), cost = tonumber(cost), name = name, signature = signature,
    strict = mark == 'strict', shadow = mark == 'shadow', block = tonumber(block) or 0,
    growth = growth ~= '' and readGrowth(growth), denials = 0, deniedAt = 0, denialsUntil = 0, counts = false,
    lock = 0, lockedSince = 0, locks = false, lockedFor = 0, isDetailed = false, offset = 1,
  }
end

local function readPlan(text)
  local plan = { attempts = {}, groups = {}, width = 0, isReady = false }
  for line in gmatch(text, '[^\n]+') do
    if not plan.mode then plan.mode, plan.isOnce = match(line, '^(%a+)(%*?)$') else plan.attempts[#plan.attempts + 1] = readCharge(line) end
  end
  plan.admits, plan.writes = plan.mode ~= 'refuse', plan.mode ~= 'peek'
  plan.isOnce = plan.isOnce == '*'
  plan.changes = changesOf[plan.mode]
  plan.decides = not plan.changes and plan.mode ~= 'forget'
  for i, attempt in ipairs(plan.attempts) do
    local group = plan.groups[attempt.key] or { first = i }
    plan.groups[attempt.key], group.last, plan.width = group, i, max(plan.width, attempt.key)
  end
  if plan.mode == 'forget' then plan.width = 1 end
  plan.span = plan.width + (plan.isOnce and 1 or 0)
  return remember(plans, text, plan)
end

-- Finds the algorithm of each charge. It is a separate step, so that an error here only fails the transaction.
local function prepare(plan)
  for _, attempt in ipairs(plan.attempts) do
    current = attempt
    local kind = kindOf(attempt.signature)
    attempt.kind, attempt.step, attempt.width = kind, twinOf(kind).step, kind.cells
    attempt.params = parametersOf(kind, attempt.signature, attempt.strict and 'strict' or '')
    attempt.isMicro, attempt.perSecond = attempt.params.perMs == 1000, attempt.params.perMs * 1000
    if kind.entries then attempt.entries = newEntries('log:' .. attempt.name) end
  end
  for _, group in ipairs(plan.groups) do arrange(group, plan.attempts) end
  current, plan.isReady = false, true
end

-- The present run: the number of keys that are used, the number when it ends, the place of the next argument and of its units, where the reply of its
-- transaction begins, and the number of keys of a transaction.
local used, last, place, units, began, span

local function readRun()
  local text = args[place]
  plan = text and (plans.values[text] or readPlan(text))
  if not plan then return end
  attempts, groups, width, admits, writes = plan.attempts, plan.groups, plan.width, plan.admits, plan.writes
  total = #attempts
  span = plan.span
  last = args[place + 1] and used + args[place + 1] * span or #keys
  place = place + 2
  if plan.changes then units, place = place, place + 2 * #attempts + (plan.isOnce and 3 or 0) end
end

local function perform(first)
  local result = 0
  if plan.isOnce then result = changeOnce(first, units)
  elseif plan.changes then changeAll(first, units)
  else result = forget(keys[first + 1]) end
  addReply(result)
  if plan.mode ~= 'renew' then return end
  for i = 1, total do
    addReply(attempts[i].heldAt)
    addReply(attempts[i].held)
  end
end

local function work()
  while plan do
    local isReady, decides = plan.isReady, plan.decides
    while used < last do
      local first = used
      used = first + span
      began = replied
      if not isReady then
        prepare(plan)
        isReady = true
      end
      if decides then commit(evaluate(first)) else perform(first) end
    end
    readRun()
  end
end

-- Returns the place of the charge whose algorithm runs, from 1; 0 if none runs.
local function placeOfCurrent()
  for i, attempt in ipairs(attempts) do
    if attempt == current then return i end
  end
  return 0
end

-- Replies with an error. An error of Redis begins with a code in capitals, or before Redis 7 with '@', a line and a minus. Any other error comes from
-- the running algorithm. It is replied with the place of its charge, and without names: names of users must not look like errors of Redis.
local function replyFailure(words)
  if not find(words, '^@') and not find(words, '^%u[%u_]+%f[^%u_]') then
    words = '#' .. placeOfCurrent() .. ' ' .. words
  end
  current, replied = false, began
  addReply(words)
end

-- Reads the time: from the call if the store has its own clock, otherwise from the server.
local function readTime(first)
  isForeign = byte(first) == 64
  if isForeign then
    now, place, slack = tonumber(sub(first, 2)), 2, 3600
  else
    local time = call('TIME')
    now, place, slack = time[1] * 1000000 + time[2], 1, 1
  end
  second, millis = now / 1000000, floor(now / 1000)
  latest = second + slack
end

-- Returns the reply. All calls use the same table, so the rest of the last reply is removed.
local function endReply(last)
  for i = replied + 1, last do reply[i] = nil end
  return reply
end

local function decide(callKeys, callArgs)
  local lastReplied = replied
  keys, args, used, replied, current, began = callKeys, callArgs, 0, 1, false, 1
  readTime(args[1])
  reply[1] = now
  readRun()
  while true do
    local done, failure = pcall(work)
    if done then return endReply(lastReplied) end
    local words = tostring(type(failure) == 'table' and failure.err or failure)
    -- A replica refuses the whole call, so that the client sees this error and can connect again (`reconnectOnError`).
    local refusal = match(words, '^READONLY.*') or match(words, '^@.-%-(READONLY.*)')
    if refusal then return { err = refusal } end
    replyFailure(words)
  end
end
