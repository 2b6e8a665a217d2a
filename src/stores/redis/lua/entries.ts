import { luaLater } from './later.ts'

/** How many entries stand in one field. Lua looks at every byte of a text that it is given: shorter ones would be too many. */
export const CHUNK = 8

/**
 * Entries in Lua: a queue of (time, cost) from index `head` up to `tail`, in chunks. Each is a field of its own, read when it is
 * needed, but for the open one, that the next entry goes to: that is part of the state, and so is what the first entry says,
 * which is all that most steps ask. Whoever steps sees what `Entries` promises; here are also the edits that follow from a step.
 */
const functions = String.raw`
local CHUNK = ${CHUNK}

local function chunkField(field, number)
  return field .. '\0' .. number
end

-- Aims E at the entries of a field, which the numbers of s, behind its cells, and the end of its value tell.
function lists.aim(E, key, field, s, cells, value)
  local head, tail = s[cells + 1], s[cells + 2]
  E.key, E.field, E.head, E.tail, E.firstTime, E.firstCost = key, field, head, tail, s[cells + 3], s[cells + 4]
  E.first = head < tail and head or -1
  E.value, E.openAt, E.open = value, s[cells + 6], floor(tail / CHUNK)
  E.chunks, E.read, E.low, E.high = {}, -1, huge, -1
  return E
end

local function chunkOf(E, number)
  local chunk = E.chunks[number]
  if not chunk then
    if number ~= E.open then chunk = call('HGET', E.key, chunkField(E.field, number)) or ''
    else chunk = E.value and sub(E.value, E.openAt) or '' end
    E.chunks[number] = chunk
  end
  return chunk
end

local function readEntry(E, e)
  E.read, E.readTime, E.readCost = e, unpacked('<dd', chunkOf(E, floor(e / CHUNK)), e % CHUNK * 16 + 1)
end

function lists.newEntries()
  local E = {}
  function E.next(e) return e + 1 < E.tail and e + 1 or -1 end
  function E.time(e)
    if e == E.head then return E.firstTime end
    if e ~= E.read then readEntry(E, e) end
    return E.readTime
  end
  function E.cost(e)
    if e == E.head then return E.firstCost end
    if e ~= E.read then readEntry(E, e) end
    return E.readCost
  end
  return E
end

-- Writes an entry, and notes the lowest and the highest chunk that has been written to.
local function put(E, e, time, cost)
  local number, at = floor(e / CHUNK), e % CHUNK * 16
  local chunk, entry = chunkOf(E, number), pack('<dd', time, cost)
  E.chunks[number] = at == #chunk and chunk .. entry or sub(chunk, 1, at) .. entry .. sub(chunk, at + 17)
  E.low, E.high = min(E.low, number), max(E.high, number)
  if e == E.head then E.firstTime, E.firstCost = time, cost elseif e == E.read then E.readTime, E.readCost = time, cost end
end

-- Entries that are worked on as a copy: when the limit that wrote them was another one.
function lists.copyOf(E)
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

function lists.editCopy(C, edit)
  if edit.amend ~= -1 then C.costs[edit.amend] = edit.amendCost end
  C.head = C.head + edit.drop
  if edit.pushCost > 0 then pushCopy(C, edit.pushTime, edit.pushCost) end
  C.first = C.head <= #C.times and C.head or -1
end

-- Chunks that fall away, from one number up to another.
local function dropChunks(gone, field, from, to)
  for number = from, to do gone[#gone + 1] = chunkField(field, number) end
end

local function firstChunk(E)
  return floor(E.head / CHUNK)
end

local function lastChunk(E)
  return E.tail > E.head and floor((E.tail - 1) / CHUNK) or firstChunk(E) - 1
end

function lists.dropAll(gone, E)
  dropChunks(gone, E.field, firstChunk(E), lastChunk(E))
end

-- Notes the chunks to be written, behind n words of set. Returns the open one, and how many words there are.
local function setChunks(set, n, E)
  local last = floor(E.tail / CHUNK)
  for number = max(firstChunk(E), E.low), min(last - 1, E.high) do
    local chunk = E.chunks[number]
    if chunk then
      set[n + 1], set[n + 2] = chunkField(E.field, number), chunk
      n = n + 2
    end
  end
  return last == E.open and chunkOf(E, last) or E.chunks[last] or '', n
end

local function push(E, time, cost)
  local newest = E.tail - 1
  if newest >= E.head and E.time(newest) == time then
    put(E, newest, time, E.cost(newest) + cost)
  else
    put(E, E.tail, time, cost)
    E.tail = E.tail + 1
  end
end

-- Writes a copy in place of what it was made from. Returns what is left, and the open chunk.
function lists.replaceEntries(trial, set, gone)
  local C = trial.E
  lists.editCopy(C, trial.out.edit)
  local E = lists.aim(lists.newEntries(), trial.key, trial.field, { 0, 0, 0, 0 }, 0)
  for i = C.head, #C.times do
    local number = floor(E.tail / CHUNK)
    E.chunks[number] = E.chunks[number] or ''
    put(E, E.tail, C.times[i], C.costs[i])
    E.tail = E.tail + 1
  end
  dropChunks(gone, trial.field, max(floor(E.tail / CHUNK), firstChunk(C.old)), lastChunk(C.old))
  return E, (setChunks(set, #set, E))
end

local function behead(E, drop, gone)
  local from, head = firstChunk(E), E.head + drop
  if head < E.tail then E.firstTime, E.firstCost = E.time(head), E.cost(head) end
  E.head = head
  dropChunks(gone, E.field, from, firstChunk(E) - 1)
end

-- Writes an edit in place, behind n words of set. Returns the open chunk, and how many words there are.
function lists.editEntries(E, edit, set, n, gone)
  if edit.amend ~= -1 then put(E, edit.amend, E.time(edit.amend), edit.amendCost) end
  if edit.drop > 0 then behead(E, edit.drop, gone) end
  if edit.pushCost > 0 then push(E, edit.pushTime, edit.pushCost) end
  E.first = E.head < E.tail and E.head or -1
  if E.first ~= -1 then return setChunks(set, n, E) end
  E.head, E.tail = 0, 0
  return '', n
end

-- What a state says of its entries, behind its cells.
function lists.describe(E, next, cells)
  next[cells + 1], next[cells + 2] = E.head, E.tail
  if E.head < E.tail then next[cells + 3], next[cells + 4] = E.firstTime, E.firstCost
  else next[cells + 3], next[cells + 4] = 0, 0 end
end

function lists.clearEdit(out)
  out.edit = { drop = 0, amend = -1, amendCost = 0, pushTime = 0, pushCost = 0 }
end

-- The entries behind a state that is decided plainly, for the step.
function lists.aimed(ask, key, s, value)
  if not ask.E then
    ask.E, ask.gone = lists.newEntries(), {}
    lists.clearEdit(ask.out)
  end
  if #ask.gone > 0 then ask.gone = {} end
  return lists.aim(ask.E, key, ask.policy.field, s, ask.policy.kind.cells, value)
end

-- Notes what is to be written for them, behind n words of set. Returns the open chunk, and how many words there are.
function lists.edited(ask, set, n)
  local open
  open, n = lists.editEntries(ask.E, ask.out.edit, set, n, ask.gone)
  lists.describe(ask.E, ask.out.next, ask.policy.kind.cells)
  return open, n
end
`

export const luaEntries: string = luaLater('lists', functions)
