-- The entries of a log in Lua, oldest first: the first chunk, the blocks, the open chunk. The chunks are part of the value of the log. Each block is
-- a separate field, which is read when it is needed. An index has a record for each block between the oldest and the newest, so that a search reads
-- only a few texts, even if there are many entries.
--
-- If there are blocks, neither chunk is empty. Without blocks, all entries are in the first chunk, which can be twice as long then.

-- The bytes of a chunk (8 entries), and of a full block.
local CHUNK, BLOCK = 8 * ENTRY, BLOCK_ENTRIES * ENTRY

-- Blocks are numbered from 1. These numbers stand for the chunks.
local FIRST, OPEN = 0, -1

local function blockField(entries, number)
  return entries.field .. '\0' .. number
end

-- Returns the text with the entries of a block or of a chunk.
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

-- Returns the records of the blocks between the oldest and the newest, in one text.
local function indexOf(entries)
  if not entries.index then entries.index = call('HGET', entries.key, entries.field .. '\0') or '' end
  return entries.index
end

-- Adds up the entries of a text until one is later than a time, or the sum reaches a cost. Returns the sum, and the place and the time of this
-- entry.
local function scan(text, from, to, time, cost, sum)
  for at = from, to, ENTRY do
    local made, each = unpacked('<dd', text, at)
    if made > time then return sum, at, made end
    sum = sum + each
    if sum >= cost then return sum, at, made end
  end
  return sum
end

-- Does the same for blocks. Also returns the block of this entry.
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

-- Does the same for all entries.
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

-- Returns the place of the entry of a time in a text; nothing if the text has no such entry.
local function placeIn(text, from, past, time)
  local low, high = 0, (past - from) / ENTRY
  while low < high do
    local middle = floor((low + high) / 2)
    if timeAt(text, from + middle * ENTRY) < time then low = middle + 1 else high = middle end
  end
  local at = from + low * ENTRY
  if at < past and timeAt(text, at) == time then return at end
end

-- Returns where the entries of the oldest or the newest block begin.
local function startOf(entries, number)
  return number == entries.head and entries.skip + 1 or 1
end

-- Returns the block or the chunk that can have the entry of a time. It searches from the newest, because most searches are for new entries.
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

-- Returns the place of the entry of a time, and its block or chunk.
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

-- Aims entries at the value of a log. They begin at the place `at`. `first` is the bytes of the first chunk. `head` and `tail` are the oldest and the
-- newest block, 0 if there is none. `skip` is the bytes at the start of the oldest block that no longer count.
local function aim(entries, key, value, at, first, skip, head, tail)
  entries.key, entries.value, entries.at = key, value, at
  entries.head, entries.tail, entries.skip, entries.open = head, tail, skip, head == 0 and #value + 1 or at + first
  entries.texts, entries.index, entries.isIndexChanged, entries.set, entries.gone = false, false, false, false, false
  entries.added, entries.passedAt = '', false
  return entries
end

-- Aims at an empty log, as for a new key.
local function aimAtNone(entries, key)
  return aim(entries, key, '', 1, 0, 0, 0, 0)
end

-- Changes of the entries of a log in Lua. `set` has the fields to write, and `gone` the fields to delete. A push writes the open chunk, and every
-- eighth push the newest block. A drop removes whole blocks. A refund writes at most one block, or joins two small blocks.

local function setBlock(entries, number, text)
  entries.set, entries.texts = entries.set or {}, entries.texts or {}
  entries.texts[number] = text
  local set = entries.set
  set[#set + 1], set[#set + 2] = blockField(entries, number), text
end

local function removeBlock(entries, number)
  entries.gone = entries.gone or {}
  entries.gone[#entries.gone + 1] = blockField(entries, number)
end

local function setIndex(entries, index)
  entries.index, entries.isIndexChanged = index, true
end

-- Removes the last block. All entries are in the chunks then.
local function leaveLast(entries)
  removeBlock(entries, entries.tail)
  entries.head, entries.skip, entries.open = 0, 0, #entries.value + 1
end

-- Removes the blocks before a block, which becomes the oldest.
local function leaveUntil(entries, number)
  if entries.head == number then return end
  removeBlock(entries, entries.head)
  local index, place = indexOf(entries), 1
  while place <= #index do
    local each = unpacked('<I4', index, place)
    place = place + RECORD
    if each == number then break end
    removeBlock(entries, each)
  end
  if place > 1 then setIndex(entries, sub(index, place)) end
  entries.head, entries.skip = number, 0
end

local function leaveOldest(entries)
  if entries.head == entries.tail then return leaveLast(entries) end
  local index = indexOf(entries)
  leaveUntil(entries, #index > 0 and unpacked('<I4', index) or entries.tail)
end

local function leaveNewest(entries)
  if entries.head == entries.tail then return leaveLast(entries) end
  removeBlock(entries, entries.tail)
  local index = indexOf(entries)
  if #index == 0 then
    entries.tail = entries.head
  else
    entries.tail = unpacked('<I4', index, #index - RECORD + 1)
    setIndex(entries, sub(index, 1, -RECORD - 1))
  end
end

-- If the first chunk is empty, moves entries of the oldest block into it.
local function fillFirst(entries)
  if entries.head == 0 or entries.at < entries.open then return end
  local text = textOf(entries, entries.head)
  local first = sub(text, entries.skip + 1, entries.skip + CHUNK)
  entries.value, entries.at, entries.open = first .. sub(entries.value, entries.open), 1, #first + 1
  entries.skip = entries.skip + #first
  if entries.skip >= #text then leaveOldest(entries) end
  return fillFirst(entries)
end

-- If the open chunk is empty, moves entries of the newest block into it.
local function fillOpen(entries)
  if entries.head == 0 or entries.open <= #entries.value then return end
  local text, start = textOf(entries, entries.tail), startOf(entries, entries.tail)
  local from = max(start, #text - CHUNK + 1)
  entries.value = entries.value .. sub(text, from)
  if from == start then leaveNewest(entries) else setBlock(entries, entries.tail, sub(text, 1, from - 1)) end
end

local function withCost(text, at, cost)
  return sub(text, 1, at + 7) .. pack('<d', cost) .. sub(text, at + ENTRY)
end

-- Drops the oldest entries up to a cost. The last block that this changes is not written: its oldest entries move into the first chunk.
local function dropCost(entries, cost)
  local sum, at, _, number = cost, entries.passedAt, nil, entries.passedIn
  -- Usually the cost is the cost of the expired entries, and the last search has ended there.
  if not at or entries.passed ~= cost then
    sum, at, _, number = search(entries, huge, cost)
    if not at then sum, at, number = cost, #entries.value - ENTRY + 1, OPEN end
    if sum == cost then at = at + ENTRY end
  end
  local text = textOf(entries, number)
  if sum > cost then text = withCost(text, at, sum - cost) end
  if number == FIRST then
    entries.value, entries.at = text, at
  else
    if number == OPEN then
      if entries.head ~= 0 then
        leaveUntil(entries, entries.tail)
        leaveLast(entries)
      end
      entries.value, entries.at, entries.open = text, at, #text + 1
    else
      leaveUntil(entries, number)
      entries.texts[number], entries.skip, entries.at = text, at - 1, entries.open
    end
  end
  fillFirst(entries)
end

local function recordOfBlock(number, last, sum, size)
  return pack('<I4ddI2', number, last, sum, size)
end

-- Joins the block of a record with the next one if both fit into one block.
local function joinBlocks(entries, place)
  local index = entries.index
  if place < 1 or place + RECORD > #index then return end
  local number, _, sum, size = unpacked('<I4ddI2', index, place)
  local other, last, more, moreSize = unpacked('<I4ddI2', index, place + RECORD)
  if size + moreSize > BLOCK then return end
  setBlock(entries, number, textOf(entries, number) .. textOf(entries, other))
  removeBlock(entries, other)
  local record = recordOfBlock(number, last, sum + more, size + moreSize)
  setIndex(entries, sub(index, 1, place - 1) .. record .. sub(index, place + 2 * RECORD))
end

-- Writes a block between the oldest and the newest after a cost was taken off it.
local function setMiddle(entries, number, text, cost)
  local index, place = indexOf(entries), 1
  while unpacked('<I4', index, place) ~= number do place = place + RECORD end
  local _, _, sum, size = unpacked('<I4ddI2', index, place)
  local record = #text > 0 and recordOfBlock(number, timeAt(text, #text - ENTRY + 1), sum - cost, #text) or ''
  setIndex(entries, sub(index, 1, place - 1) .. record .. sub(index, place + RECORD))
  if #text == 0 then return removeBlock(entries, number) end
  setBlock(entries, number, text)
  if #text == size then return end
  joinBlocks(entries, place)
  joinBlocks(entries, place - RECORD)
end

-- Takes a cost off the entry of a time. Removes an entry without a remaining cost.
local function takeOff(entries, time, cost)
  local at, number = locate(entries, time)
  local text = textOf(entries, number)
  local _, held = unpacked('<dd', text, at)
  local isGone = held == cost
  if isGone then text = sub(text, 1, at - 1) .. sub(text, at + ENTRY) else text = withCost(text, at, held - cost) end
  if number <= 0 then
    entries.value = text
    if isGone and number == FIRST then entries.open = entries.open - ENTRY end
    fillFirst(entries)
    fillOpen(entries)
  elseif number ~= entries.head and number ~= entries.tail then setMiddle(entries, number, text, cost)
  elseif #text >= startOf(entries, number) then setBlock(entries, number, text)
  elseif number == entries.head then leaveOldest(entries)
  else leaveNewest(entries) end
end

-- Moves the entries of the open chunk into the newest block, or into a new one.
local function closeChunk(entries)
  local tail, open = entries.tail, entries.head == 0 and entries.at + CHUNK or entries.open
  local chunk = sub(entries.value, open)
  local text = entries.head ~= 0 and textOf(entries, tail)
  entries.value, entries.open, entries.at = sub(entries.value, entries.at, open - 1), open - entries.at + 1, 1
  if text and #text < BLOCK then return setBlock(entries, tail, text .. chunk) end
  if not text then
    entries.head, entries.skip = tail + 1, 0
  elseif tail ~= entries.head then
    local record = recordOfBlock(tail, timeAt(text, #text - ENTRY + 1), scan(text, 1, #text, huge, huge, 0), #text)
    setIndex(entries, indexOf(entries) .. record)
  end
  entries.tail = tail + 1
  setBlock(entries, tail + 1, chunk)
end

-- Adds an entry, or adds to the newest entry if it has the same time. It is not part of `value` yet, because joining texts is slow.
local function push(entries, time, cost)
  local value = entries.value
  local size = #value - entries.at + 1
  if size > 0 then
    local newestTime, newestCost = unpacked('<dd', value, #value - ENTRY + 1)
    if newestTime == time then
      entries.value, entries.added = sub(value, 1, -9), pack('<d', newestCost + cost)
      return
    end
    if entries.head ~= 0 and #value - entries.open + 1 >= CHUNK or size >= 2 * CHUNK then closeChunk(entries) end
  end
  entries.added = pack('<dd', time, cost)
end

-- Applies the stored edit. The entries must not be read until `goOn` has made it a part of the value.
local function applyEdit(entries)
  if entries.drop > 0 then dropCost(entries, entries.drop) end
  if entries.takeCost > 0 then takeOff(entries, entries.takeTime, entries.takeCost) end
  if entries.pushCost > 0 then push(entries, entries.pushTime, entries.pushCost) end
end

-- Makes an edit a part of the value, so that the entries can be read again.
local function goOn(entries)
  entries.value, entries.added = entries.value .. entries.added, ''
  if entries.head == 0 then entries.open = #entries.value + 1 end
  entries.passedAt = false
end

-- Adds the fields of the blocks and the index to the lists of fields to write and to delete.
local function writeBlocks(entries, set, gone)
  for i = 1, entries.set and #entries.set or 0 do set[#set + 1] = entries.set[i] end
  for i = 1, entries.gone and #entries.gone or 0 do gone[#gone + 1] = entries.gone[i] end
  if not entries.isIndexChanged then return end
  local list = #entries.index > 0 and set or gone
  list[#list + 1] = entries.field .. '\0'
  if list == set then set[#set + 1] = entries.index end
end

-- Returns the value of a log.
local function valueOf(entries, kind, cells)
  local width = kind.cells
  cells[width + 1], cells[width + 2] = entries.open - entries.at, entries.skip
  cells[width + 3], cells[width + 4] = entries.head, entries.tail
  local rest = entries.at == 1 and entries.value or sub(entries.value, entries.at)
  return pack(kind.format, unpack(cells, 1, width + 4)) .. rest .. entries.added
end
