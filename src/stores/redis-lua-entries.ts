/**
 * Entries in Lua: a queue of (time, cost) from index `head` up to `tail`, in chunks. Each is a field of its own, read when it is
 * needed, but for the open one, that the next entry goes to: that is part of the state. Whoever steps sees what `Entries` promises; here are also the edits that follow from a step.
 */
export const luaEntries: string = String.raw`
local CHUNK = 32

local function chunkField(field, number)
  return field .. '\0' .. number
end

-- Aims E at the entries of a field.
local function aim(E, key, field, head, tail, open)
  E.key, E.field, E.head, E.tail = key, field, head, tail
  E.first = head < tail and head or -1
  E.chunks, E.dirty = { [floor(tail / CHUNK)] = open }, {}
  return E
end

local function chunkOf(E, e)
  local number = floor(e / CHUNK)
  local chunk = E.chunks[number]
  if not chunk then
    chunk = call('HGET', E.key, chunkField(E.field, number)) or ''
    E.chunks[number] = chunk
  end
  return chunk, number
end

local function newEntries()
  local E = {}
  function E.next(e) return e + 1 < E.tail and e + 1 or -1 end
  function E.time(e) return (unpacked('<d', chunkOf(E, e), e % CHUNK * 16 + 1)) end
  function E.cost(e) return (unpacked('<d', chunkOf(E, e), e % CHUNK * 16 + 9)) end
  return E
end

local function put(E, e, time, cost)
  local chunk, number = chunkOf(E, e)
  local at = e % CHUNK * 16
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

-- Chunks that fall away, from one number up to another.
local function dropChunks(gone, field, from, to)
  for number = from, to do gone[#gone + 1] = chunkField(field, number) end
end

local function lastChunk(E)
  return E.tail > E.head and floor((E.tail - 1) / CHUNK) or floor(E.head / CHUNK) - 1
end

local function dropAll(gone, E)
  dropChunks(gone, E.field, floor(E.head / CHUNK), lastChunk(E))
end

-- Notes the chunks to be written, from one number on. Returns the open one.
local function setChunks(set, E, first, tail)
  local last = floor(tail / CHUNK)
  for number in pairs(E.dirty) do
    if number >= first and number < last then
      set[#set + 1] = chunkField(E.field, number)
      set[#set + 1] = E.chunks[number]
    end
  end
  return E.chunks[last] or ''
end

-- Writes a copy in place of what it was made from. Returns the new head and tail, and the open chunk.
local function replaceEntries(trial, set, gone)
  local C = trial.E
  editCopy(C, trial.out.edit)
  local E = aim(newEntries(), trial.key, trial.field, 0, 0, '')
  local index = 0
  for i = C.head, #C.times do
    local number = floor(index / CHUNK)
    E.chunks[number] = E.chunks[number] or ''
    put(E, index, C.times[i], C.costs[i])
    index = index + 1
  end
  dropChunks(gone, trial.field, max(floor(index / CHUNK), floor(C.old.head / CHUNK)), lastChunk(C.old))
  return 0, index, setChunks(set, E, 0, index)
end

local function pushEntry(E, head, time, cost)
  local tail = E.tail
  if tail > head and E.time(tail - 1) == time then
    put(E, tail - 1, time, E.cost(tail - 1) + cost)
    return tail
  end
  if tail % CHUNK == 0 then E.chunks[floor(tail / CHUNK)] = '' end
  put(E, tail, time, cost)
  return tail + 1
end

-- Writes an edit in place. Returns the new head and tail, and the open chunk.
local function editEntries(E, edit, set, gone)
  if edit.amend ~= -1 then put(E, edit.amend, E.time(edit.amend), edit.amendCost) end
  local head, tail = E.head + edit.drop, E.tail
  if edit.pushCost > 0 then tail = pushEntry(E, head, edit.pushTime, edit.pushCost) end
  local open = ''
  if head == tail then
    dropAll(gone, E)
    head, tail = 0, 0
  else
    dropChunks(gone, E.field, floor(E.head / CHUNK), floor(head / CHUNK) - 1)
    open = setChunks(set, E, floor(head / CHUNK), tail)
  end
  E.head, E.tail, E.first = head, tail, head < tail and head or -1
  return head, tail, open
end

local function clearEdit(out)
  out.edit = { drop = 0, amend = -1, amendCost = 0, pushTime = 0, pushCost = 0 }
end

-- The entries behind a state that is decided plainly, for the step.
function rare.aimed(ask, key, s, value)
  if not ask.E then
    ask.E = newEntries()
    clearEdit(ask.out)
  end
  local kind = ask.policy.kind
  local open = value and sub(value, s[kind.numbers + 1]) or ''
  return aim(ask.E, key, ask.policy.field, s[kind.cells + 1], s[kind.cells + 2], open)
end

-- Notes what is to be written for them, behind n words of set. Returns the new head and tail, the open chunk, and how many words
-- there are.
function rare.edited(ask, n)
  local chunks, gone = {}, {}
  local head, tail, open = editEntries(ask.E, ask.out.edit, chunks, gone)
  for i = 1, #chunks do set[n + i] = chunks[i] end
  ask.gone = gone
  return head, tail, open, n + #chunks
end
`
