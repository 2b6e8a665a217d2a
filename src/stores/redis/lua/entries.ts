/** The bytes of an entry: its time and its cost. */
export const ENTRY = 16

/** The bytes of a chunk: 8 entries. */
const CHUNK = 8 * ENTRY

/** How many entries a full block holds: with its length, it just fits into 4 KiB. */
export const BLOCK_ENTRIES = 248

const BLOCK = BLOCK_ENTRIES * ENTRY

/** The bytes of a block's record: its number, the time of its last entry, their cost, and its bytes. */
export const RECORD = 22

/**
 * The entries of a log in Lua, oldest first: the first chunk, blocks, the open chunk. The chunks are part of the log's value. Each block is a
 * separate field, which is read when it is needed. Of the blocks between the oldest and the newest, an index says what they hold, so that a
 * search reads a few texts however many entries there are.
 *
 * Where there are blocks, neither chunk is empty. Where there are none, all entries are in the first chunk, which is then up to twice as long.
 */
export const luaEntries: string = String.raw`
local ENTRY, CHUNK, BLOCK, RECORD = ${ENTRY}, ${CHUNK}, ${BLOCK}, ${RECORD}

-- Blocks are numbered from 1. These say that an entry is in one of the chunks.
local FIRST, OPEN = 0, -1

local function blockField(entries, number)
  return entries.field .. '\0' .. number
end

-- The text that holds the entries of a block, or of a chunk.
local function textOf(entries, number)
  if number <= 0 then return entries.value end
  entries.texts = entries.texts or {}
  local text = entries.texts[number]
  if not text then
    text = call('HGET', entries.key, blockField(entries, number))
    entries.texts[number] = text
  end
  return text
end

-- The records of the blocks between the oldest and the newest, in one text.
local function indexOf(entries)
  if not entries.index then entries.index = call('HGET', entries.key, entries.field .. '\0') or '' end
  return entries.index
end

-- Passes entries of a text up to a time, or until the sum of their costs reaches a cost. Returns the sum, and the place and the time of the
-- entry where it ended: the first that is later, or the one that reached the cost.
local function scan(text, from, to, time, cost, sum)
  for at = from, to, ENTRY do
    local made, each = unpacked('<dd', text, at)
    if made > time then return sum, at, made end
    sum = sum + each
    if sum >= cost then return sum, at, made end
  end
  return sum
end

-- The same for blocks. Returns also the block in which it ended.
local function scanBlocks(entries, time, cost, sum)
  local head, tail, at, made = entries.head, entries.tail
  local text = textOf(entries, head)
  sum, at, made = scan(text, entries.skip + 1, #text, time, cost, sum)
  if at or head == tail then return sum, at, made, head end
  local index = indexOf(entries)
  for place = 1, #index, RECORD do
    local number, last, total = unpacked('<I4dd', index, place)
    if last > time or sum + total >= cost then
      text = textOf(entries, number)
      sum, at, made = scan(text, 1, #text, time, cost, sum)
      return sum, at, made, number
    end
    sum = sum + total
  end
  text = textOf(entries, tail)
  sum, at, made = scan(text, 1, #text, time, cost, sum)
  return sum, at, made, tail
end

-- The same for all entries.
local function search(entries, time, cost)
  local value, open, number = entries.value, entries.open
  local sum, at, made = scan(value, entries.at, open - 1, time, cost, 0)
  if at or entries.head == 0 then return sum, at, made, FIRST end
  sum, at, made, number = scanBlocks(entries, time, cost, sum)
  if at then return sum, at, made, number end
  sum, at, made = scan(value, open, #value, time, cost, sum)
  return sum, at, made, OPEN
end

local function timeAt(text, at)
  return (unpacked('<d', text, at))
end

-- The place of the entry of a time in a text that may hold it.
local function placeIn(text, from, past, time)
  local low, high = 0, (past - from) / ENTRY
  while low < high do
    local middle = floor((low + high) / 2)
    if timeAt(text, from + middle * ENTRY) < time then low = middle + 1 else high = middle end
  end
  local at = from + low * ENTRY
  if at < past and timeAt(text, at) == time then return at end
end

-- Where the entries of the oldest or the newest block begin.
local function startOf(entries, number)
  return number == entries.head and entries.skip + 1 or 1
end

-- The block or the chunk that holds the entry of a time, if there is one: most often it is among the newest.
local function blockOf(entries, time)
  local value, open, head, tail = entries.value, entries.open, entries.head, entries.tail
  if head == 0 or time <= timeAt(value, open - ENTRY) then return FIRST end
  if time >= timeAt(value, open) then return OPEN end
  if head == tail or time >= timeAt(textOf(entries, tail), 1) then return tail end
  local oldest = textOf(entries, head)
  if time <= timeAt(oldest, #oldest - ENTRY + 1) then return head end
  local index, found = indexOf(entries), tail
  for place = #index - RECORD + 1, 1, -RECORD do
    local number, last = unpacked('<I4d', index, place)
    if last < time then break end
    found = number
  end
  return found
end

-- The place of the entry of a time, and the block or the chunk.
local function locate(entries, time)
  local number = blockOf(entries, time)
  if number == FIRST then return placeIn(entries.value, entries.at, entries.open, time), number end
  if number == OPEN then return placeIn(entries.value, entries.open, #entries.value + 1, time), number end
  local text = textOf(entries, number)
  return placeIn(text, startOf(entries, number), #text + 1, time), number
end

local function newEntries(field)
  local entries = { field = field }
  function entries.costUntil(time)
    if entries.at < entries.open and timeAt(entries.value, entries.at) > time then return 0 end
    local sum, at, _, number = search(entries, time, huge)
    entries.passed, entries.passedAt, entries.passedIn = sum, at, number
    return sum
  end
  function entries.timeOf(cost)
    local _, _, made = search(entries, huge, cost)
    return made or -huge
  end
  function entries.costAt(time)
    local at, number = locate(entries, time)
    if not at then return 0 end
    local _, cost = unpacked('<dd', textOf(entries, number), at)
    return cost
  end
  function entries.beforeNewest()
    local value = entries.value
    local at = #value - 2 * ENTRY + 1
    if entries.head ~= 0 and at < entries.open then
      local text = textOf(entries, entries.tail)
      return timeAt(text, #text - ENTRY + 1)
    end
    return at >= entries.at and timeAt(value, at) or -huge
  end
  function entries.edit(drop, takeTime, takeCost, pushTime, pushCost)
    entries.drop, entries.takeTime, entries.takeCost, entries.pushTime, entries.pushCost =
      drop, takeTime, takeCost, pushTime, pushCost
  end
  return entries
end

-- Aims entries at a log's value. They begin at a place in it; first are the bytes of the first chunk, head and tail the oldest and the newest
-- block, 0 when there is none, and skip the bytes at the start of the oldest that are no longer part of it.
local function aim(entries, key, value, at, first, skip, head, tail)
  entries.key, entries.value, entries.at = key, value, at
  entries.head, entries.tail, entries.skip, entries.open = head, tail, skip, head == 0 and #value + 1 or at + first
  entries.texts, entries.index, entries.isIndexChanged, entries.set, entries.gone = false, false, false, false, false
  entries.added, entries.passedAt = '', false
  return entries
end

-- Aims entries at none, as those of a key that was never seen.
local function aimAtNone(entries, key)
  return aim(entries, key, '', 1, 0, 0, 0, 0)
end
`
