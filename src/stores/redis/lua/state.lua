-- The counterparts of `isAhead`, `lockEnd` and `moveToPresent` in `engine/row.ts`. `kind.times` has the places of the cells that are points in time,
-- and the ticks of each. When a state is moved, all its entries become one entry.

local function unitOf(params, ticks)
  return ticks == 1 and 1 or params[ticks]
end

local function isAhead(kind, params, cells, offset, tick)
  local newest = kind.newest
  return newest and cells[offset + newest] * unitOf(params, kind.times[newest]) > tick + TOLERANCE_MS * params.perMs
end

local function lockEnd(since, ending)
  return since > now + TOLERANCE_MS * 1000 and now + (ending - since) or ending
end

local function moveToPresent(attempt, kind, params, cells, offset, tick)
  local newest = kind.newest
  local ahead = cells[offset + newest] * unitOf(params, kind.times[newest]) - tick
  for k, ticks in pairs(kind.times) do
    local unit = unitOf(params, ticks)
    cells[offset + k] = floor((cells[offset + k] * unit - ahead) / unit)
  end
  attempt.isCarriedOver = true
  if not attempt.entries then return end
  attempt.entries.edit(huge, 0, 0, cells[offset + newest], cells[offset + 1])
  applyEdit(attempt.entries)
  goOn(attempt.entries)
end

-- The states of a key in Lua. The field "names" is the header: it lists the limits of the key. The field "states" has the hash of the header, and the
-- numbers of all limits of fixed size. A log has a separate field for its entries. States with the header of the plan are read and written here.
-- Other states need records.

-- Calls a command in slices: a log may have more fields than the stack has room for.
local function inSlices(command, key, list)
  for i = 1, #list, 2000 do call(command, key, unpack(list, i, min(i + 1999, #list))) end
end

-- Assigns places to the limits of a key.
local function arrange(group, attempts)
  local headings, blank, fields = {}, { 0 }, { 'states' }
  for i = group.first, group.last do
    local attempt = attempts[i]
    local kind = attempt.kind
    attempt.opens, attempt.closes = false, false
    headings[#headings + 1] = heading(attempt.name, kind.cells, kind.entries, false, false, false, false, attempt.signature)
    if kind.entries then
      fields[#fields + 1] = attempt.entries.field
      attempt.next, attempt.offset = {}, 0
    else
      attempt.offset = #blank
      for _, cell in ipairs(kind.blank) do blank[#blank + 1] = cell end
    end
  end
  group.attempts, group.header, group.count = attempts, concat(headings, '\n'), #blank
  group.hash, group.format, group.size = hashOf(group.header), '<c8I4' .. rep('d', #blank - 1), 4 + 8 * #blank
  group.blank, group.cells, group.next = blank, { unpack(blank) }, { unpack(blank) }
  for i = group.first, group.last do
    if not attempts[i].entries then attempts[i].cells, attempts[i].next = group.cells, group.next end
  end
  attempts[group.first].opens, attempts[group.last].closes = group, group
  group.logs = #fields > 1 and fields
end

local function readLogs(group, key, values)
  local at = 1
  for i = group.first, group.last do
    local attempt = group.attempts[i]
    if attempt.entries then
      at = at + 1
      local record = not group.isUsual and attempt.record
      attempt.value = values[at]
      if not attempt.value then
        attempt.cells = attempt.kind.blank
        aimAtNone(attempt.entries, key)
      elseif group.isUsual or record and record.signature == attempt.signature then
        attempt.cells = openLog(attempt, key, attempt.width, attempt.kind.format)
      else
        readOtherLog(attempt, key)
      end
    end
  end
end

-- Reads the numbers after a hash. Returns the hash.
local function readWide(cells, count, hash, ...)
  for k = 1, count do cells[k] = select(k, ...) end
  return hash
end

-- Reads all limits of a key into their cells, after the second until which the key is kept at least. If the hash differs, this plan would write the
-- states in another form.
local function read(group, key)
  local cells, count, value, values, hash = group.cells, group.count
  if group.logs then
    values = call('HMGET', key, unpack(group.logs))
    value = values[1]
  else
    value = call('HGET', key, 'states')
  end
  group.key = key
  group.value = value
  group.isUsual = true
  if value then
    if #value ~= group.size then hash = nil
    elseif count == 3 then hash, cells[1], cells[2], cells[3] = unpacked(group.format, value)
    elseif count < 8 then
      hash, cells[1], cells[2], cells[3], cells[4], cells[5], cells[6], cells[7] = unpacked(group.format, value)
    else hash = readWide(cells, count, unpacked(group.format, value)) end
    if hash ~= group.hash then readOther(group) end
  else
    clear(group)
  end
  if values then readLogs(group, key, values) end
end

-- Writes the cells of a wide state after its first three.
local function keepMore(next, offset, width, ...)
  for k = 4, width do next[offset + k] = select(k - 3, ...) end
end

local function checkCells(next, offset, width)
  for k = offset + 1, offset + width do
    if not (next[k] <= huge) then error('the next state is not a number', 0) end
  end
end

-- Keeps the cells of limits that are not charged.
local function keepOthers(group)
  local cells, next = group.cells, group.next
  for i = group.first, group.last do
    local attempt = group.attempts[i]
    if not (attempt.isCharged or attempt.entries) then
      for k = attempt.offset + 1, attempt.offset + attempt.width do next[k] = cells[k] end
    end
  end
end

-- Applies the edit of a log, and prepares its fields for writing.
local function keepLog(attempt, kind, cells, group)
  local entries, set = attempt.entries, group.set
  applyEdit(entries)
  writeBlocks(entries, set, group.gone)
  set[#set + 1], set[#set + 2] = entries.field, valueOf(entries, kind, cells)
end

-- Returns the second until which a key must be kept, and the seconds until then. They are longer than necessary, so that the expiry is seldom checked.
-- With a clock of the store, the second is 0, because this clock does not know when the server deletes the key.
local function keepFor(lasting)
  local needed = lasting + slack + min(max(lasting / 4, 2), 3600)
  return isForeign and 0 or floor(second + needed), needed
end

local function prolong(key, needed)
  if call('PTTL', key) < needed * 1000 then call('PEXPIRE', key, ceil(needed * 1000)) end
end

-- Writes and deletes the prepared fields.
local function writeFields(group, needed)
  inSlices('HSET', group.key, group.set)
  inSlices('HDEL', group.key, group.gone)
  if needed then prolong(group.key, needed) end
end

-- Prepares the states of limits with the header of the plan for writing.
local function setStates(group, kept)
  local set, next = group.set, group.next
  keepOthers(group)
  next[1] = kept
  set[#set + 1], set[#set + 2] = 'states', pack(group.format, group.hash, unpack(next, 1, group.count))
  if not group.value then set[#set + 1], set[#set + 2] = 'names', group.header end
end

-- Writes the limits of a key that has logs, or whose header differs from the header of the plan.
local function writeOther(group, lasting, isChanged)
  local isUsual, changesFixed = group.isUsual, not group.value
  for i = group.first, group.last do
    local attempt = group.attempts[i]
    if attempt.isCharged and not attempt.entries then changesFixed = true end
    if not isUsual and attempt.locks then isChanged, lasting = true, max(lasting, (attempt.lock - now) / 1000000) end
    if not isUsual and attempt.counts then isChanged, lasting = true, max(lasting, (attempt.denialsUntil - now) / 1000000) end
  end
  if not isChanged then return end
  local kept, needed = group.cells[1], false
  if latest + lasting > kept then kept, needed = keepFor(lasting) end
  group.set, group.gone = {}, {}
  for i = group.first, group.last do
    local attempt = group.attempts[i]
    if attempt.entries and attempt.isCharged then keepLog(attempt, attempt.kind, attempt.next, group) end
  end
  if not isUsual then setRecords(group, kept)
  elseif changesFixed or needed then setStates(group, kept) end
  writeFields(group, needed)
end

-- Writes the charged limits of a key. `isChanged`: at least one limit is charged. `isPartial`: at least one limit is not charged. The states last for
-- `lasting` seconds.
local function write(group, lasting, isChanged, isPartial)
  if not group.isUsual or group.logs then return writeOther(group, lasting, isChanged) end
  if not isChanged then return end
  if isPartial then keepOthers(group) end
  local key, next, kept, needed, states = group.key, group.next, group.cells[1], false
  if latest + lasting > kept then kept, needed = keepFor(lasting) end
  next[1] = kept
  if group.count == 3 then states = pack(group.format, group.hash, kept, next[2], next[3])
  else states = pack(group.format, group.hash, unpack(next, 1, group.count)) end
  if group.value then call('HSET', key, 'states', states)
  else call('HSET', key, 'names', group.header, 'states', states) end
  if needed then prolong(key, needed) end
end
