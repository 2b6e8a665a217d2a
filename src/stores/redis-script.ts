import { createHash } from 'node:crypto'
import { type Algorithm, luaPrelude } from '../algorithm.ts'

/**
 * The script that decides. It is put together from a frame, which is here, and the Lua twins of the algorithms that a store
 * has met. One run decides any number of transactions, one after another: each reads all its limits, steps all, then writes
 * all or nothing.
 *
 * KEYS: one hash for each (limiter, key). In a hash one field for each limit, `lock · signature · NUL · cells` with numbers
 * as little-endian doubles; a limit that keeps entries has further fields, `name · NUL · number`, of up to 32 of them.
 *
 * ARGV: the time in microseconds (empty: the server's), how long keys outlive their use, the policies, the transactions.
 */
const FRAME = `
--PRELUDE--
local CHUNK = 32
local floor, ceil, max, min, huge = math.floor, math.ceil, math.max, math.min, math.huge
local pack, read_, sub, find = struct.pack, struct.unpack, string.sub, string.find

local kinds = {}
--KINDS--

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
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end
local slack = tonumber(ARGV[2])

local policies = {}
for i = 1, number() do
  local policy = { field = text(), signature = text(), shadow = text() == '1', block = number() }
  policy.kind = kinds[text()]
  local p = { strict = number(), perMs = number() }
  for _, name in ipairs(policy.kind.parameters) do p[name] = number() end
  policy.p = p
  policy.strict = p.strict == 1
  policies[i] = policy
end

-- Entries: a queue of (time, cost) from index head up to tail, in chunks that are read when they are needed.

local NONE = { first = -1 }

local function chunkField(field, chunk)
  return field .. '\\0' .. chunk
end

local function entriesOf(key, field, head, tail)
  local E = { first = head < tail and head or -1, head = head, tail = tail, key = key, field = field, chunks = {}, dirty = {} }
  local function chunkOf(e)
    local number = floor(e / CHUNK)
    local chunk = E.chunks[number]
    if not chunk then
      chunk = redis.call('HGET', key, chunkField(field, number)) or ''
      E.chunks[number] = chunk
    end
    return chunk, number
  end
  E.chunkOf = chunkOf
  function E.next(e) return e + 1 < tail and e + 1 or -1 end
  function E.time(e) return (read_('<d', chunkOf(e), (e % CHUNK) * 16 + 1)) end
  function E.cost(e) return (read_('<d', chunkOf(e), (e % CHUNK) * 16 + 9)) end
  return E
end

local function put(E, e, time, cost)
  local chunk, number = E.chunkOf(e)
  local at = (e % CHUNK) * 16
  E.chunks[number] = sub(chunk, 1, at) .. pack('<dd', time, cost) .. sub(chunk, at + 17)
  E.dirty[number] = true
end

-- Entries that are worked on as a copy: when the limit that wrote them was another one.
local function copyOf(E)
  local times, costs = {}, {}
  local e = E.first
  while e ~= -1 do
    times[#times + 1] = E.time(e)
    costs[#costs + 1] = E.cost(e)
    e = E.next(e)
  end
  local C = { times = times, costs = costs, head = 1, old = E }
  function C.next(i) return i < #times and i + 1 or -1 end
  function C.time(i) return times[i] end
  function C.cost(i) return costs[i] end
  C.first = #times > 0 and 1 or -1
  return C
end

local function pushCopy(C, time, cost)
  local newest = #C.times
  if newest >= C.head and C.times[newest] == time then
    C.costs[newest] = C.costs[newest] + cost
  else
    C.times[newest + 1] = time
    C.costs[newest + 1] = cost
  end
end

local function editCopy(C, edit)
  if edit.amend ~= -1 then C.costs[edit.amend] = edit.amendCost end
  C.head = C.head + edit.drop
  if edit.pushCost > 0 then pushCopy(C, edit.pushTime, edit.pushCost) end
  C.first = C.head <= #C.times and C.head or -1
end

local function clearEdit(edit)
  edit.drop, edit.amend, edit.pushCost = 0, -1, 0
end

-- A trial: one charge, read, stepped and, once all others have spoken, kept or left.

local function parse(trial, value)
  trial.lock = 0
  trial.wrote = nil
  if not value then return end
  trial.lock = read_('<d', value)
  local stop = find(value, '\\0', 9, true)
  trial.wrote = sub(value, 9, stop - 1)
  trial.cellsAt = stop + 1
  trial.value = value
end

local function readCells(value, at, count)
  local s = {}
  for i = 1, count do s[i], at = read_('<d', value, at) end
  return s, at
end

local function blank(kind)
  local s = {}
  for i = 1, #kind.blank do s[i] = kind.blank[i] end
  return s
end

-- The kind and the parameters that a signature names.
local function known(signature)
  local values = {}
  for word in string.gmatch(signature, '[^,]+') do values[#values + 1] = word end
  local kind = kinds[table.remove(values, 1)]
  if not kind then return nil end
  local p = { strict = 0, perMs = tonumber(table.remove(values, 1)) }
  for i, name in ipairs(kind.parameters) do p[name] = tonumber(values[i]) end
  return kind, p
end

local function entriesAt(trial, kind, at)
  if not kind.entries then return NONE end
  local head, tail = read_('<dd', trial.value, at)
  return entriesOf(trial.key, trial.field, head, tail)
end

-- Reads a state as a limit of kind and p sees it: as it stands, converted, or blank.
local function read(trial, signature, kind, p)
  trial.kind, trial.p = kind, p
  trial.tick = p.perMs == 1000 and now or floor(now / 1000)
  trial.copied = false
  local wrote = trial.wrote
  if wrote == signature then
    local at
    trial.s, at = readCells(trial.value, trial.cellsAt, #kind.blank)
    trial.E = entriesAt(trial, kind, at)
    return
  end
  trial.s = blank(kind)
  trial.E = kind.entries and entriesOf(trial.key, trial.field, 0, 0) or NONE
  if not wrote or wrote == '' then return end
  local oldKind, oldP = known(wrote)
  if not oldKind then return end
  local s, at = readCells(trial.value, trial.cellsAt, #oldKind.blank)
  local E = entriesAt(trial, oldKind, at)
  trial.old = oldKind.entries and E or nil
  if oldKind ~= kind then return end
  local C = kind.entries and copyOf(E) or NONE
  local out = trial.out
  clearEdit(out.edit)
  kind.convert(p, oldP, s, trial.tick, out, C)
  for i = 1, #kind.blank do trial.s[i] = out.next[i] end
  if kind.entries then editCopy(C, out.edit) end
  trial.E = C
  trial.copied = kind.entries
end

local function step(trial, cost, strict)
  local p = trial.p
  local saved = p.strict
  p.strict = strict
  trial.kind.step(p, trial.s, trial.tick, cost, trial.out, trial.E)
  p.strict = saved
end

local function report(trial)
  trial.remaining, trial.reset, trial.delay = trial.out.remaining, trial.out.reset, trial.out.delay
end

local function evaluate(trial)
  local policy, cost = trial.policy, trial.cost
  read(trial, policy.signature, policy.kind, policy.p)
  if trial.lock > now then
    step(trial, cost, 0)
    trial.allowed = cost == 0
    trial.retry = trial.allowed and 0 or trial.out.retry
    step(trial, 0, 0)
    report(trial)
    trial.remaining = 0
    trial.told = trial.lock - now
    return
  end
  step(trial, cost, policy.p.strict)
  trial.allowed = trial.out.allowed
  trial.retry = trial.out.retry
  report(trial)
  trial.told = 0
  if not trial.allowed and policy.block > 0 then
    trial.lock = now + policy.block
    trial.told = policy.block
    trial.remaining = 0
  end
end

-- Writing: the value of a limit's field, and its entries. What is written is remembered, to be given its expiry at the end.

local writes = {}

local function remember(key, micros)
  writes[key] = max(writes[key] or 0, micros)
end

-- Chunks that fall away, from one index up to another.
local function dropChunks(gone, field, from, to)
  for number = from, to do gone[#gone + 1] = chunkField(field, number) end
end

local function lastChunk(E)
  return E.tail > E.head and floor((E.tail - 1) / CHUNK) or floor(E.head / CHUNK) - 1
end

local function dropAll(gone, E)
  dropChunks(gone, E.field, floor(E.head / CHUNK), lastChunk(E))
end

local function setChunks(set, E, first)
  for number in pairs(E.dirty) do
    if number >= first then
      set[#set + 1] = chunkField(E.field, number)
      set[#set + 1] = E.chunks[number]
    end
  end
end

local function replaceEntries(trial, set, gone)
  local C = trial.E
  editCopy(C, trial.out.edit)
  local E = entriesOf(trial.key, trial.field, 0, 0)
  local index = 0
  for i = C.head, #C.times do
    local number = floor(index / CHUNK)
    E.chunks[number] = E.chunks[number] or ''
    put(E, index, C.times[i], C.costs[i])
    index = index + 1
  end
  local used = ceil(index / CHUNK)
  dropChunks(gone, trial.field, max(used, floor(C.old.head / CHUNK)), lastChunk(C.old))
  setChunks(set, E, 0)
  return 0, index
end

local function editEntries(trial, set, gone)
  local E, edit = trial.E, trial.out.edit
  if edit.amend ~= -1 then put(E, edit.amend, E.time(edit.amend), edit.amendCost) end
  local head, tail = E.head + edit.drop, E.tail
  if edit.pushCost > 0 then
    if tail > head and E.time(tail - 1) == edit.pushTime then
      put(E, tail - 1, edit.pushTime, E.cost(tail - 1) + edit.pushCost)
    else
      if tail % CHUNK == 0 then E.chunks[floor(tail / CHUNK)] = '' end
      put(E, tail, edit.pushTime, edit.pushCost)
      tail = tail + 1
    end
  end
  if head == tail then
    dropAll(gone, E)
    return 0, 0
  end
  dropChunks(gone, trial.field, floor(E.head / CHUNK), floor(head / CHUNK) - 1)
  setChunks(set, E, floor(head / CHUNK))
  return head, tail
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

local function keep(trial, signature)
  local kind, out = trial.kind, trial.out
  local set, gone = { trial.field, '' }, {}
  local value = pack('<d', trial.lock) .. signature .. '\0'
  for i = 1, #kind.blank do value = value .. pack('<d', out.next[i]) end
  if trial.old and not trial.copied then dropAll(gone, trial.old) end
  if kind.entries then
    local edited = trial.copied and replaceEntries or editEntries
    local head, tail = edited(trial, set, gone)
    value = value .. pack('<dd', head, tail)
  end
  set[2] = value
  gone = without(gone, set)
  -- Before anything is removed: a server that is out of memory refuses this, and then nothing has been written.
  redis.call('HSET', trial.key, unpack(set))
  if #gone > 0 then redis.call('HDEL', trial.key, unpack(gone)) end
  local micros = out.reset * (1000 / trial.p.perMs)
  remember(trial.key, max(micros, trial.lock - now))
end

local function keepLock(trial)
  local value = trial.value
  if value then value = pack('<d', trial.lock) .. sub(value, 9) else value = pack('<d', trial.lock) .. '\\0' end
  redis.call('HSET', trial.key, trial.field, value)
  remember(trial.key, max(trial.lock - now, trial.reset * (1000 / trial.p.perMs)))
end

local function conclude(trial, admitted, writing)
  local policy, cost, out = trial.policy, trial.cost, trial.out
  trial.charged = 0
  local charged
  if cost == 0 then charged = false
  elseif trial.allowed then charged = admitted or policy.strict
  else charged = out.persist end
  if charged then
    if not writing then return end
    keep(trial, policy.signature)
    if trial.allowed and admitted then
      trial.at, trial.charged = out.at, out.charged
    end
    trial.value = nil
  elseif trial.allowed and not admitted and cost > 0 then
    step(trial, 0, policy.p.strict)
    report(trial)
  end
  if writing and not trial.allowed and not charged and trial.lock > now then keepLock(trial) end
end

local function adjust(trial, units, at)
  local policy = trial.policy
  local kind, p, signature = policy.kind, policy.p, policy.signature
  local left = false
  if trial.wrote and trial.wrote ~= '' then
    local wroteKind, wroteP = known(trial.wrote)
    if wroteKind == kind then
      read(trial, trial.wrote, wroteKind, wroteP)
      step(trial, 0, 0)
      left = trial.out.reset > 0
      if left then p, signature = wroteP, trial.wrote end
    end
  end
  -- What is fresh may be absent, too.
  if not left and units < 0 then return end
  read(trial, signature, kind, p)
  local out = trial.out
  clearEdit(out.edit)
  kind.adjust(p, trial.s, trial.tick, rescale(at, policy.p, p), units, out, trial.E)
  if not out.persist then return end
  keep(trial, signature)
  parse(trial, redis.call('HGET', trial.key, trial.field))
  read(trial, signature, kind, p)
  step(trial, 0, 0)
  remember(trial.key, out.reset * (1000 / p.perMs))
end

local function newTrial(key, policy)
  return {
    key = key, field = policy.field, policy = policy,
    out = { next = {}, edit = { drop = 0, amend = -1, amendCost = 0, pushTime = 0, pushCost = 0 }, reset = 0 },
  }
end

local reply = {}
local function say(value)
  -- Whole numbers go as they are; a reply would cut off the rest of others.
  if value == huge then value = -1 elseif value ~= floor(value) then value = string.format('%.17g', value) end
  reply[#reply + 1] = value
end

local function take(mode)
  local trials = {}
  local admitted = mode ~= 'refuse'
  for i = 1, number() do
    local key, policy = KEYS[number()], policies[number()]
    local trial = newTrial(key, policy)
    trial.cost = number()
    parse(trial, redis.call('HGET', key, policy.field))
    evaluate(trial)
    if not trial.allowed and not policy.shadow then admitted = false end
    trials[i] = trial
  end
  for _, trial in ipairs(trials) do
    conclude(trial, admitted, mode ~= 'peek')
    say(trial.allowed and 1 or 0)
    say(trial.remaining)
    say(trial.retry)
    say(trial.reset)
    say(trial.delay)
    say(trial.told)
    say(trial.at or 0)
    say(trial.charged)
  end
end

for _ = 1, number() do
  local mode = text()
  if mode == 'adjust' then
    for _ = 1, number() do
      local key, policy = KEYS[number()], policies[number()]
      local trial = newTrial(key, policy)
      parse(trial, redis.call('HGET', key, policy.field))
      local units = number()
      adjust(trial, units, number())
    end
  elseif mode == 'forget' then
    redis.call('DEL', KEYS[number()])
  else
    take(mode)
  end
end

for key, micros in pairs(writes) do
  local needed = ceil(micros / 1000) + slack
  if redis.call('PTTL', key) < needed then redis.call('PEXPIRE', key, needed + slack) end
end
return reply
`

/** A script and the name Redis knows it by. */
export interface Script {
  readonly text: string
  readonly sha: string
}

/** The script for a set of algorithms. */
export function scriptFor(algorithms: readonly Algorithm[]): Script {
  const texts = [...new Set(algorithms.map(({ lua }) => lua))]
  const twins = texts.map((lua, i) => `local twin${i} = (function()\n${lua}\nend)()`)
  const kinds = algorithms.map((each) => kindOf(each, texts.indexOf(each.lua)))
  const text = FRAME.replace('--PRELUDE--', luaPrelude).replace('--KINDS--', () => [...twins, ...kinds].join('\n'))
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}

/** The name of an algorithm's kind in Lua: a variant has the name of the algorithm it varies, and a number of its own. */
function kindOf(algorithm: Algorithm, twin: number): string {
  const words = (list: readonly string[]): string => list.map((word) => `'${word}'`).join(', ')
  const blank = algorithm.blank.map((cell) => (cell === -Infinity ? '-huge' : String(cell))).join(', ')
  return (
    `kinds['${algorithm.name}'] = { parameters = { ${words(algorithm.parameters)} }, blank = { ${blank} }, ` +
    `entries = ${String(algorithm.entries ?? false)}, step = twin${twin}.step, adjust = twin${twin}.adjust, convert = twin${twin}.convert }`
  )
}
