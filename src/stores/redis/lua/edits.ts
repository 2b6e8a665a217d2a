/**
 * What becomes of a log's entries in Lua when its state is kept. What is to be written is noted in `set` and `gone`: a push writes the open
 * chunk, and every eighth one the newest block; a drop removes whole blocks; a refund writes one block at most, or two small ones as one.
 */
export const luaEdits: string = String.raw`
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

-- All that is left is in the chunks.
local function leaveLast(entries)
  removeBlock(entries, entries.tail)
  entries.head, entries.skip, entries.open = 0, 0, #entries.value + 1
end

-- Removes the blocks before one, which becomes the oldest.
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

-- Moves entries of the oldest block into a first chunk that is empty.
local function fillFirst(entries)
  if entries.head == 0 or entries.at < entries.open then return end
  local text = textOf(entries, entries.head)
  local first = sub(text, entries.skip + 1, entries.skip + CHUNK)
  entries.value, entries.at, entries.open = first .. sub(entries.value, entries.open), 1, #first + 1
  entries.skip = entries.skip + #first
  if entries.skip >= #text then leaveOldest(entries) end
  return fillFirst(entries)
end

-- Moves entries of the newest block into an open chunk that is empty.
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

-- Drops the oldest cost. What is left of the block where that ends is not written: its oldest entries move into the first chunk.
local function dropCost(entries, cost)
  local sum, at, _, number = cost, entries.passedAt, nil, entries.passedIn
  -- Most often the cost is that of what is over, which was passed just now.
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

-- Joins the block of a record with the one behind it, when they fit into one.
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

-- Writes what is left of a block between the oldest and the newest, once some cost was taken off.
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

-- Takes some cost off the entry of a time. An entry without a cost goes.
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

-- Adds an entry, or adds to the newest when that is of the same time. It is not part of the value yet: texts are costly.
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

-- Carries out the edit that was noted. Nothing may be asked until it is part of the value.
local function applyEdit(entries)
  if entries.drop > 0 then dropCost(entries, entries.drop) end
  if entries.takeCost > 0 then takeOff(entries, entries.takeTime, entries.takeCost) end
  if entries.pushCost > 0 then push(entries, entries.pushTime, entries.pushCost) end
end

-- Continues with the entries as they are after an edit.
local function goOn(entries)
  entries.value, entries.added = entries.value .. entries.added, ''
  if entries.head == 0 then entries.open = #entries.value + 1 end
  entries.passedAt = false
end

-- Notes what is to be written beside the value of a log.
local function writeBlocks(entries, set, gone)
  for i = 1, entries.set and #entries.set or 0 do set[#set + 1] = entries.set[i] end
  for i = 1, entries.gone and #entries.gone or 0 do gone[#gone + 1] = entries.gone[i] end
  if not entries.isIndexChanged then return end
  local list = #entries.index > 0 and set or gone
  list[#list + 1] = entries.field .. '\0'
  if list == set then set[#set + 1] = entries.index end
end

-- The value of a log.
local function valueOf(entries, kind, cells)
  local width = kind.cells
  cells[width + 1], cells[width + 2] = entries.open - entries.at, entries.skip
  cells[width + 3], cells[width + 4] = entries.head, entries.tail
  local rest = entries.at == 1 and entries.value or sub(entries.value, entries.at)
  return pack(kind.format, unpack(cells, 1, width + 4)) .. rest .. entries.added
end
`
