import { luaOutcome } from './head.ts'
import { luaLater } from './later.ts'

/** Whatever is asked: one run of transactions after another, those of a run alike but for their keys. */
export function luaGeneral(plain: string, rare: string): string {
  return `
-- The limits that are spoken of. All that a state depends on is in the signature of its limit.
local policies = {}
for i = 1, ARGV[place] do
  local signature, mark, block = ARGV[place + 2 * i], '', 0
  if find(signature, ';', 1, true) then signature, mark, block = match(signature, '(.*);(.*);(.*)') end
  local kind, p = known(signature)
  if mark == 'strict' then p.strict = 1 end
  policies[i] = {
    field = ARGV[place + 2 * i - 1],
    signature = signature,
    prefix = signature .. '\\0',
    cellsAt = #signature + 2,
    kind = kind,
    step = kind.twin.step,
    p = p,
    tick = p.perMs == 1000 and now or floor(now / 1000),
    perSecond = p.perMs * 1000,
    strict = mark == 'strict',
    shadow = mark == 'shadow',
    block = block + 0,
  }
end

-- What a transaction asks, the same throughout a run: for each charge its limit, which of the transaction's keys, the cost (or
-- the units to be added) and, for an adjustment, when it was charged. There is room for all that a step reads and writes.
local asks, fields, set, count = {}, {}, {}, 0

local function asked(i, policy)
  local ask = {
    policy = policy, key = 1, cost = 1, time = 0, s = false, room = { 0, 0, 0 }, out = ${luaOutcome},
  }
  fields[i], asks[i] = policy.field, ask
  return ask
end

-- In slices: a log may have more fields than the stack has room for.
local function inSlices(command, key, list)
  for i = 1, #list, 2000 do call(command, key, unpack(list, i, min(i + 1999, #list))) end
end
${luaLater('rare', rare)}${plain}
local word, used = place + 2 * #policies + 1, 0

local function perform(mode, times, width, isPlain)
  while turn < times do
    turn = turn + 1
    used = used + width
    if not (isPlain and plainly(mode, KEYS[used])) then makeRare().transact(mode, used - width) end
  end
end

-- With no word but for the limits each transaction takes one unit of all of them, on one key.
local function askUsual()
  count = #policies
  for i = 1, count do asked(i, policies[i]) end
end

function general.work()
  if not ARGV[word] then
    askUsual()
    return perform('consume', #KEYS, 1, true)
  end
  while ARGV[word] do
    local mode, times, width = ARGV[word], ARGV[word + 1] + 0, ARGV[word + 2] + 0
    local adjusts = mode == 'adjust' or mode == 'withdraw'
    local isPlain = width == 1 and not adjusts and mode ~= 'forget'
    local at = word + 4
    count = ARGV[word + 3] + 0
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
    word, turn = at, 0
  end
end

-- One that is not as nearly always.
function general.decideUsual()
  askUsual()
  makeRare().transact('consume', turn - 1)
end

function general.sayFailure(failure)
  -- A step that failed may have left the parameters as it had borrowed them.
  for _, policy in ipairs(policies) do policy.p.strict = policy.strict and 1 or 0 end
  said = said + 1
  reply[said] = tostring(type(failure) == 'table' and failure.err or failure)
end
`
}
