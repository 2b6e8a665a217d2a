/** How many entries a chunk holds. */
export const CHUNK = 8

/** The bytes of an entry: its time and its cost. */
export const ENTRY = 16

/**
 * The entries of a log in Lua: a queue of (time, cost) from index `head` up to `tail`, in chunks. The first chunk and the newest one
 * are part of the log's value; a chunk between them is a field of its own and is read when it is needed. A step sees what
 * `Entries` promises, and notes by `edit` what becomes of the entries if its state is kept.
 */
export const luaEntries: string = String.raw`
local CHUNK, ENTRY = ${CHUNK}, ${ENTRY}

local function chunkField(field, number)
  return field .. '\0' .. number
end

local function chunkOf(entries, number)
  local text = entries.texts and entries.texts[number]
  if not text then
    text = call('HGET', entries.key, chunkField(entries.field, number)) or ''
    entries.texts = entries.texts or {}
    entries.texts[number] = text
  end
  return text
end

-- The text that holds an entry, and where in it.
local function placeOf(entries, e)
  if e < entries.firstEnd then return entries.value, entries.inline + (e - entries.head) * ENTRY end
  if e >= entries.newest then
    return entries.value, entries.inline + (entries.firstEnd - entries.head + e - entries.newest) * ENTRY
  end
  return chunkOf(entries, floor(e / CHUNK)), e % CHUNK * ENTRY + 1
end

local function readEntry(entries, e)
  entries.known, entries.knownTime, entries.knownCost = e, unpacked('<dd', placeOf(entries, e))
end

local function newEntries()
  local entries = { first = -1 }
  function entries.next(e) return e + 1 < entries.tail and e + 1 or -1 end
  function entries.time(e)
    if e ~= entries.known then readEntry(entries, e) end
    return entries.knownTime
  end
  function entries.cost(e)
    if e ~= entries.known then readEntry(entries, e) end
    return entries.knownCost
  end
  function entries.edit(drop, amend, amendCost, pushTime, pushCost)
    entries.drop, entries.amend, entries.amendCost, entries.pushTime, entries.pushCost =
      drop, amend, amendCost, pushTime, pushCost
  end
  return entries
end

-- Aims entries at a log's value, in which they begin at inline.
local function aim(entries, key, field, value, inline, head, tail)
  entries.key, entries.field, entries.value, entries.inline, entries.head, entries.tail =
    key, field, value, inline, head, tail
  entries.first, entries.known, entries.texts = head < tail and head or -1, -1, false
  entries.firstEnd, entries.newest = head - head % CHUNK + CHUNK, tail - 1 - (tail - 1) % CHUNK
  entries.drop, entries.amend, entries.pushCost = 0, -1, 0
  return entries
end

-- A copy of entries, for a limit that did not write them.
local function copyOf(entries)
  local times, costs = {}, {}
  local copy = { times = times, costs = costs, head = 1, drop = 0, amend = -1, pushCost = 0 }
  local e = entries and entries.first or -1
  while e ~= -1 do
    times[#times + 1], costs[#costs + 1] = entries.time(e), entries.cost(e)
    e = entries.next(e)
  end
  function copy.next(i) return i < #times and i + 1 or -1 end
  function copy.time(i) return times[i] end
  function copy.cost(i) return costs[i] end
  function copy.edit(drop, amend, amendCost, pushTime, pushCost)
    copy.drop, copy.amend, copy.amendCost, copy.pushTime, copy.pushCost = drop, amend, amendCost, pushTime, pushCost
  end
  copy.first = #times > 0 and 1 or -1
  return copy
end

local function editCopy(copy)
  local times, costs = copy.times, copy.costs
  local newest = #times
  if copy.amend ~= -1 then costs[copy.amend] = copy.amendCost end
  copy.head = copy.head + copy.drop
  if copy.pushCost > 0 then
    if newest >= copy.head and times[newest] == copy.pushTime then costs[newest] = costs[newest] + copy.pushCost
    else times[newest + 1], costs[newest + 1] = copy.pushTime, copy.pushCost end
  end
  copy.first = copy.head <= #times and copy.head or -1
  copy.drop, copy.amend, copy.pushCost = 0, -1, 0
end

-- The fields of chunks that a key has for a log.
local function chunkFields(key, field)
  local found, start = {}, field .. '\0'
  for _, each in ipairs(call('HKEYS', key)) do
    if sub(each, 1, #start) == start then found[#found + 1] = each end
  end
  return found
end

-- Writes a copy in place of all there was. Returns the head, the tail, and the entries that are part of the value.
local function replaceEntries(copy, key, field, set, gone)
  editCopy(copy)
  local count, texts, written = #copy.times - copy.head + 1, {}, {}
  for i = 0, count - 1 do
    local number = floor(i / CHUNK)
    texts[number] = (texts[number] or '') .. pack('<dd', copy.times[copy.head + i], copy.costs[copy.head + i])
  end
  local last = floor((count - 1) / CHUNK)
  for number = 1, last - 1 do
    set[#set + 1], set[#set + 2] = chunkField(field, number), texts[number]
    written[chunkField(field, number)] = true
  end
  for _, each in ipairs(chunkFields(key, field)) do
    if not written[each] then gone[#gone + 1] = each end
  end
  return 0, count, texts[0] or '', last > 0 and texts[last] or ''
end

-- Changes the cost of an entry where it is.
local function amendEntry(entries, e, cost, set)
  local text, at = placeOf(entries, e)
  local changed = sub(text, 1, at + 7) .. pack('<d', cost) .. sub(text, at + 16)
  entries.known = -1
  if e < entries.firstEnd or e >= entries.newest then
    entries.value = changed
  else
    local number = floor(e / CHUNK)
    entries.texts[number] = changed
    set[#set + 1], set[#set + 2] = chunkField(entries.field, number), changed
  end
end

-- What is left of the entries in the value when the head has left the first chunk, whose place the chunk it came to takes.
local function leaveFirst(entries, head, gone)
  local first, number, newest = floor(entries.head / CHUNK), floor(head / CHUNK), entries.newest / CHUNK
  local open = entries.inline + (entries.firstEnd - entries.head) * ENTRY
  for each = first + 1, min(number, newest - 1) do gone[#gone + 1] = chunkField(entries.field, each) end
  if number >= newest then return sub(entries.value, open + (head - entries.newest) * ENTRY) end
  return sub(chunkOf(entries, number), head % CHUNK * ENTRY + 1) .. sub(entries.value, open)
end

-- Adds an entry behind the rest, or to the newest when that is of the same time. Returns the tail, the rest, and what is behind it.
local function push(entries, head, tail, rest, set)
  local time, cost = entries.pushTime, entries.pushCost
  if head < tail then
    local newestTime, newestCost = unpacked('<dd', rest, #rest - 15)
    if newestTime == time then return tail, sub(rest, 1, -9), pack('<d', newestCost + cost) end
    if tail % CHUNK == 0 and tail - head > CHUNK then
      local number, text = tail / CHUNK - 1, sub(rest, -CHUNK * ENTRY)
      entries.texts = entries.texts or {}
      entries.texts[number] = text
      set[#set + 1], set[#set + 2] = chunkField(entries.field, number), text
      rest = sub(rest, 1, -CHUNK * ENTRY - 1)
    end
  end
  return tail + 1, rest, pack('<dd', time, cost)
end

-- Writes an edit in place. Returns the head, the tail, and the entries that are part of the value, in two pieces: texts are costly.
local function editEntries(entries, set, gone)
  if entries.amend ~= -1 then amendEntry(entries, entries.amend, entries.amendCost, set) end
  local head, tail, rest, added = entries.head + entries.drop, entries.tail, '', ''
  if head < entries.firstEnd and head < tail then rest = sub(entries.value, entries.inline + entries.drop * ENTRY)
  elseif head < tail then rest = leaveFirst(entries, head, gone)
  else
    for number = entries.firstEnd / CHUNK, entries.newest / CHUNK - 1 do
      gone[#gone + 1] = chunkField(entries.field, number)
    end
    head, tail = 0, 0
  end
  if entries.pushCost > 0 then tail, rest, added = push(entries, head, tail, rest, set) end
  return head, tail, rest, added
end
`
