-- The records of a key. Names of limits may come from user data, so records in which nothing counts any more are dropped, and the number of names of a
-- key is bounded.

local function tickOf(params)
  return params.perMs == 1000 and now or millis
end

-- Returns the ticks until a state has expired.
local function resetOf(kind, params, cells, offset, tick, entries)
  local _, _, _, _, reset = twinOf(kind).step(params, cells, offset, tick, 0, entries)
  return reset
end

local noEntries = { edit = function() end }
function noEntries.costUntil() return 0 end
function noEntries.timeOf() return -huge end
noEntries.costAt, noEntries.beforeNewest = noEntries.costUntil, noEntries.timeOf

-- Returns the microseconds for which a state counts, as seen `ago` microseconds earlier. The state of an unknown algorithm counts as long as the key
-- is kept. After a reset there is no state.
local function lifeOf(group, record, ago)
  if record.signature == '' then return 0 end
  local kind, cells = kindOf(record.signature), record.cells
  if not kind then return max(0, call('PTTL', group.key)) * 1000 end
  if record.isLog then
    local value = call('HGET', group.key, 'log:' .. record.name)
    cells = value and { unpacked(rep('d', record.width), value) } or kind.blank
  end
  local params = parametersOf(kind, record.signature, '')
  local micros = 1000 / params.perMs
  return resetOf(kind, params, cells, 0, tickOf(params) - ago / micros, noEntries) * micros
end

-- Returns true if anything in a record counts by any clock.
local function counts(group, record)
  local ago = slack * 1000000
  return record.lock > now - ago or record.change > now - ago
    or record.denials > 0 and record.denialsUntil > now - ago or lifeOf(group, record, ago) > 0
end

-- Adds the fields of the logs of some limits to the fields to delete, whichever algorithm wrote them.
local function dropLogs(group, names)
  local gone = group.gone
  for _, field in ipairs(call('HKEYS', group.key)) do
    local name = match(field, '^log:([^%z]*)')
    if name and names[name] then gone[#gone + 1] = field end
  end
end

-- Drops the records of other limits in which nothing counts. The names of their logs are kept, so that their fields are deleted.
local function dropExpired(group)
  local kept, own = {}, {}
  for i = group.first, group.last do own[group.attempts[i].name] = true end
  for _, record in ipairs(group.records) do
    if own[record.name] or counts(group, record) then kept[#kept + 1] = record
    elseif record.isLog then
      group.goneLogs = group.goneLogs or {}
      group.goneLogs[record.name] = true
    end
  end
  group.records = kept
end

-- The most limits of a key. All of them are read and written together, with at most 16 numbers each, and Lua can pass less than 8,000 numbers at
-- once.
local MOST_NAMES = 256

-- Makes room for new names of limits. Fails if there is none.
local function makeRoom(group)
  if #group.records < MOST_NAMES then return end
  dropExpired(group)
  if #group.records >= MOST_NAMES then error({ err = 'SLUICE_MANY_LIMITS' }) end
end

-- States as records, one for each limit in a header. They are only used in rare cases: if there are other limits, changed limits or locked keys.

-- Returns the line of a limit in the header: its name, the number of its cells, + for a log, ! for a locked key, ~ for a changed limit, # for denials
-- that count, ^ for units that were cut off, and the signature of what wrote it.
local function heading(name, width, isLog, isLocked, isChanged, isDenied, isCut, signature)
  return name .. '\t' .. width .. (isLog and '+' or '') .. (isLocked and '!' or '') .. (isChanged and '~' or '')
    .. (isDenied and '#' or '') .. (isCut and '^' or '') .. signature
end

-- Returns the first eight bytes of the SHA-1 of a header.
local function hashOf(header)
  local digits = redis.sha1hex(header)
  return pack('<I4I4', tonumber(sub(digits, 1, 8), 16), tonumber(sub(digits, 9, 16), 16))
end

local layouts = newCache()

-- Layouts with more limits are not remembered, so that they do not fill the memory of the server.
local MOST_REMEMBERED = 16

-- Returns the layout of the numbers in "states" for a header.
local function layoutOf(header)
  local layout = layouts.values[header]
  if layout then return layout end
  layout = { format = '<I4' }
  for name, width, log, lock, change, denied, cut, signature in
    gmatch(header, '([^\t\n]+)\t(%d)(%+?)(!?)(~?)(#?)(%^?)([^\n]*)')
  do
    local isLog, isLocked, isChanged, isDenied, isCut = log == '+', lock == '!', change == '~', denied == '#', cut == '^'
    local cells = isLog and 0 or tonumber(width)
    layout[#layout + 1] = {
      name = name, width = tonumber(width), cells = cells, isLog = isLog, isLocked = isLocked,
      isChanged = isChanged, isDenied = isDenied, isCut = isCut, signature = signature,
    }
    local others = (isLocked and 2 or 0) + (isChanged and 2 or 0) + (isDenied and 3 or 0) + (isCut and 1 or 0)
    layout.format = layout.format .. rep('d', cells + others)
  end
  return #layout > MOST_REMEMBERED and layout or remember(layouts, header, layout)
end

-- Reads the states as records, and gives each charge its record. Returns the second until which the key is kept at least.
local function openRecords(group)
  local records, named, kept = {}, {}, 0
  if group.value then
    local layout = layoutOf(call('HGET', group.key, 'names'))
    local numbers = { unpacked(layout.format, group.value, 9) }
    local at = 1
    kept = numbers[1]
    for i, each in ipairs(layout) do
      local record = {
        name = each.name, width = each.width, isLog = each.isLog, signature = each.signature, lock = 0, change = 0, denials = 0,
        cut = 0, cells = {},
      }
      if each.isLocked then record.lock, record.lockedSince, at = numbers[at + 1], numbers[at + 2], at + 2 end
      if each.isChanged then record.change, record.changedAt, at = numbers[at + 1], numbers[at + 2], at + 2 end
      if each.isDenied then
        record.denials, record.deniedAt, record.denialsUntil, at = numbers[at + 1], numbers[at + 2], numbers[at + 3], at + 3
      end
      if each.isCut then record.cut, at = numbers[at + 1], at + 1 end
      for k = 1, each.cells do record.cells[k] = numbers[at + k] end
      at = at + each.cells
      records[i], named[each.name] = record, record
    end
  end
  group.records, group.isUsual, group.isNew, group.goneLogs = records, false, false, nil
  for i = group.first, group.last do
    local attempt = group.attempts[i]
    local record = named[attempt.name]
    attempt.record, attempt.locks, attempt.lock = record, false, record and record.lock or 0
    attempt.lockedSince = record and record.lockedSince or 0
    attempt.change, attempt.changedAt = record and record.change or 0, record and record.changedAt or 0
    local isDenied = record and record.denials > 0
    attempt.denials, attempt.counts = isDenied and record.denials or 0, false
    attempt.deniedAt, attempt.denialsUntil = isDenied and record.deniedAt or 0, isDenied and record.denialsUntil or 0
    attempt.isCarriedOver, attempt.cut = false, record and record.change > now and record.cut or 0
    if not record then group.isNew = true end
  end
  if group.isNew then makeRoom(group) end
  return kept
end

-- Returns the algorithm that wrote the state of a charge if the algorithm of the charge can read it.
local function writerOf(attempt)
  local record, kind = attempt.record, attempt.kind
  local from = record and kindOf(record.signature)
  if not from or from.entries ~= kind.entries then return nil end
  if from == kind or from.family and from.family == kind.family then return from end
end

-- Converts a state of another configuration of a limit, with the units that this configuration has cut off. Returns the cells. Stores the units that
-- are cut off now in the attempt.
local function convertState(attempt, from, cells, entries)
  current, attempt.isCarriedOver = attempt, true
  local params, old = attempt.params, parametersOf(from, attempt.record.signature, '')
  if attempt.cut > 0 then
    local tick = rescale(tickOf(params), params, old)
    cells = { select(2, twinOf(from).adjust(old, cells, 0, tick, tick, attempt.cut, entries)) }
  end
  local state = { twinOf(attempt.kind).convert(params, old, cells, 0, tickOf(params), entries) }
  attempt.cut = state[attempt.kind.cells + 1] or 0
  state[attempt.kind.cells + 1] = nil
  return state
end

-- Gives all limits of a key the state of a new key.
local function clear(group)
  local cells, blank = group.cells, group.blank
  for k = 1, group.count do cells[k] = blank[k] end
end

-- Reads states that this plan would not write in this form: states of other limits, changed limits, or locked keys.
local function readOther(group)
  local cells = group.cells
  clear(group)
  cells[1] = openRecords(group)
  for i = group.first, group.last do
    local attempt = group.attempts[i]
    local from = not attempt.entries and writerOf(attempt)
    if not from then attempt.cut = 0
    else
      local record = attempt.record
      local state = record.signature == attempt.signature and record.cells or convertState(attempt, from, record.cells)
      for k, cell in ipairs(state) do cells[attempt.offset + k] = cell end
    end
  end
end

-- Reads a log of an algorithm with `width` cells. Returns its cells.
local function openLog(attempt, key, width, format)
  local cells = { unpacked(format, attempt.value) }
  aim(attempt.entries, key, attempt.value, 8 * width + 13, unpack(cells, width + 1, width + 4))
  return cells
end

-- Reads a log and removes its entries.
local function openCleared(attempt, key)
  local record, entries = attempt.record, attempt.entries
  if not (attempt.value and record and record.isLog) then return aimAtNone(entries, key) end
  openLog(attempt, key, record.width, '<' .. rep('d', record.width) .. 'I2I2I4I4')
  entries.edit(huge, 0, 0, 0, 0)
  applyEdit(entries)
  goOn(entries)
end

-- Reads a log that another limit wrote.
local function readOtherLog(attempt, key)
  local from = writerOf(attempt)
  attempt.cells = attempt.kind.blank
  if not from then return openCleared(attempt, key) end
  local cells = openLog(attempt, key, from.cells, from.format)
  attempt.cells = convertState(attempt, from, cells, attempt.entries)
  applyEdit(attempt.entries)
  goOn(attempt.entries)
end

-- Notes that a limit takes over the state of another one. Earlier charges are not refunded while the previous state would have counted: until
-- `attempt.change`.
local function noteChange(group, attempt, signature)
  local record = attempt.record
  -- Slots keep their times, so that each release finds its own.
  if not record or attempt.kind.slots or record.signature == signature and not attempt.isCarriedOver then return end
  local ending = now + lifeOf(group, record, 0)
  if ending > now then attempt.change, attempt.changedAt = max(attempt.change, ending), now end
end

-- Keeps the units that were cut off. If a charge prolongs the state (`from` to `to`), these units are kept longer by the same time.
local function keepCut(attempt, kind, params, from, to, offset, record)
  record.cut = attempt.cut
  if attempt.cut == 0 then return end
  local tick = tickOf(params)
  local before = resetOf(kind, params, from, offset, tick, noEntries)
  local after = resetOf(kind, params, to, offset, tick, noEntries)
  attempt.change = attempt.change + (after - before) * 1000 / params.perMs
end

-- Returns the record of a limit after the decision. A limit that is not charged keeps its record. If it has none, it gets the record of a new key.
local function recordOf(group, attempt)
  local record, kind = attempt.record, attempt.kind
  if not record or attempt.isCharged then
    local isFixed = not attempt.entries
    noteChange(group, attempt, attempt.signature)
    if record and record.isLog and isFixed then dropLogs(group, { [attempt.name] = true }) end
    local cells, from = {}, attempt.isCharged and group.next or group.cells
    for k = 1, isFixed and kind.cells or 0 do cells[k] = from[attempt.offset + k] end
    record = { name = attempt.name, width = kind.cells, isLog = attempt.entries, signature = attempt.signature, cells = cells, cut = 0 }
    if attempt.isCharged then keepCut(attempt, kind, attempt.params, attempt.cells, attempt.next, attempt.offset, record) end
  end
  -- A lock that has ended is kept for the time that a clock may step back.
  record.lock = attempt.lock > now - slack * 1000000 and attempt.lock or 0
  record.lockedSince = attempt.lockedSince
  record.change = attempt.change > now - slack * 1000000 and attempt.change or 0
  record.changedAt = attempt.changedAt
  record.denials = attempt.denialsUntil > now - slack * 1000000 and attempt.denials or 0
  record.deniedAt, record.denialsUntil = attempt.deniedAt, attempt.denialsUntil
  return record
end

-- Prepares all records for writing: those of this plan in its order, and then the others. If a name is new, or the key is kept longer, drops expired
-- records.
local function setRecords(group, kept)
  if group.isNew or kept ~= group.cells[1] then dropExpired(group) end
  local headings, numbers, own = {}, { kept }, {}
  local function add(record)
    local isLocked, isChanged, isDenied, isCut = record.lock ~= 0, record.change ~= 0, record.denials > 0, record.cut ~= 0
    headings[#headings + 1] =
      heading(record.name, record.width, record.isLog, isLocked, isChanged, isDenied, isCut, record.signature)
    if isLocked then numbers[#numbers + 1], numbers[#numbers + 2] = record.lock, record.lockedSince end
    if isChanged then numbers[#numbers + 1], numbers[#numbers + 2] = record.change, record.changedAt end
    if isDenied then
      local at = #numbers
      numbers[at + 1], numbers[at + 2], numbers[at + 3] = record.denials, record.deniedAt, record.denialsUntil
    end
    if isCut then numbers[#numbers + 1] = record.cut end
    for _, cell in ipairs(record.cells) do numbers[#numbers + 1] = cell end
  end
  for i = group.first, group.last do
    local attempt = group.attempts[i]
    own[attempt.name] = true
    add(recordOf(group, attempt))
  end
  for _, record in ipairs(group.records) do
    if not own[record.name] then add(record) end
  end
  if group.goneLogs then dropLogs(group, group.goneLogs) end
  local set, header = group.set, concat(headings, '\n')
  set[#set + 1], set[#set + 2] = 'names', header
  set[#set + 1], set[#set + 2] = 'states', hashOf(header) .. pack('<I4' .. rep('d', #numbers - 1), unpack(numbers))
end
