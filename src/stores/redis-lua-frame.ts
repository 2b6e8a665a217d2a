/**
 * What comes last: one run of transactions after another, those of a run alike but for their keys. One that fails leaves the
 * others alone. `rare` is what a call seldom needs, and not even made before.
 */
export function luaFrame(plain: string, rare: string): string {
  return `
local reply, said = { now }, 1

-- What a transaction asks, the same throughout a run: for each charge its limit, which of the transaction's keys, the cost (or
-- the units to be added) and, for an adjustment, when it was charged. There is room for all that a step writes.
local asks, fields, set, count = {}, {}, {}, 0

local function asked(i, policy)
  local ask = {
    policy = policy, key = 1, cost = 1, time = 0, s = false, pair = { 0, 0, 0 }, charged = false,
    out = {
      allowed = false, at = 0, retry = 0, remaining = 0, reset = 0, delay = 0, charged = 0, persist = false,
      next = { 0, 0, 0 }, edit = false,
    },
  }
  fields[i], asks[i] = policy.field, ask
  return ask
end

-- Sees to it that a key is kept for so many seconds; if it is not, it is kept for longer.
local function prolong(key, seconds, longer)
  if call('PTTL', key) < seconds * 1000 then call('PEXPIRE', key, ceil(longer * 1000)) end
end

local rare
local function rarely()
  if not rare then
    rare = {};
    (function()
${rare}
    end)()
  end
  return rare
end
${plain}
local turn, used = 0, 0

local function perform(mode, times, width, isPlain)
  while turn < times do
    turn = turn + 1
    used = used + width
    if not (isPlain and plainly(mode, KEYS[used])) then rarely().transact(mode, used - width) end
  end
end

local function work()
  if not ARGV[place] then
    -- No word but for the limits: each transaction takes one unit of all of them, on one key.
    count = #policies
    for i = 1, count do asked(i, policies[i]) end
    return perform('consume', #KEYS, 1, true)
  end
  while ARGV[place] do
    local mode, times, width = ARGV[place], ARGV[place + 1] + 0, ARGV[place + 2] + 0
    local adjusts = mode == 'adjust' or mode == 'withdraw'
    local isPlain = width == 1 and not adjusts and mode ~= 'forget'
    local at = place + 4
    count = ARGV[place + 3] + 0
    for i = 1, count do
      local ask = asked(i, policies[ARGV[at + 1] + 0])
      ask.key, ask.cost = ARGV[at] + 0, ARGV[at + 2] + 0
      at = at + 3
      if adjusts then
        ask.time = ARGV[at] + 0
        at = at + 1
      end
    end
    perform(mode, times, width, isPlain)
    place, turn = at, 0
  end
end

while true do
  local done, failure = pcall(work)
  if done then return reply end
  -- No transaction's fault: arguments that cannot be read.
  if turn == 0 then return failure end
  rarely().sayFailure(failure)
end
`
}
