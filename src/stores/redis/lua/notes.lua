-- Notes of receipts: the counterpart of `stores/note.ts`. A note has its own hash. The hash has the time until which it is kept, what was done, and the
-- ticks to which renewals have moved slots, by keys and names of limits.

local function placeOf(attempt, first)
  return 'at ' .. keys[first + attempt.key] .. '\n' .. attempt.name
end

-- Reads what the present transaction needs of a note.
local function readNote(key, first)
  local fields, note = { 'until', 'settled', 'released' }, {}
  for i = 1, total do fields[i + 3] = placeOf(attempts[i], first) end
  for i, value in ipairs(call('HMGET', key, unpack(fields))) do note[fields[i]] = value end
  if not note['until'] or note['until'] + 0 > now then return note end
  call('DEL', key)
  return {}
end

local function writeNote(key, note, set, kept)
  local ending = max(kept, (note['until'] or 0) + 0)
  set[#set + 1], set[#set + 2] = 'until', format('%.0f', ending)
  inSlices('HSET', key, set)
  prolong(key, (ending - now) / 1000000 + 2 * slack)
end

-- Reduces the arguments to the parts that were not done before, with the present ticks of the slots.
local function keepUndone(note, first, place, settles, changesSlots)
  for i = 1, total do
    local attempt = attempts[i]
    local moved = note[placeOf(attempt, first)]
    if moved then
      local time, held = match(moved, '^(%S+) (%S+)$')
      local units = args[place] + 0
      args[place + 1], args[place] = time + 0, units < 0 and max(units, -held) or min(units, held + 0)
    end
    local isDone = not settles
    if attempt.kind.slots then isDone = not changesSlots end
    if isDone then args[place] = 0 end
    place = place + 2
  end
end

-- Adjusts or renews the parts of a receipt that were not done before. Returns 1 if the receipt has ended, or was settled before, or for a renewal
-- released before.
local function changeOnce(first, place)
  local asked = place + 2 * total
  local isOver, kept, uses = now >= args[asked] + 0, args[asked + 1] + 0, args[asked + 2] + 0
  local key, renews = keys[first + width + 1], plan.mode == 'renew'
  local note = readNote(key, first)
  local settles = uses % 2 == 1 and not (isOver or note.settled)
  local changesSlots = (renews or uses >= 2) and not (isOver or note.released)
  local isRepeated = (uses % 2 == 1 and not settles or renews and not changesSlots) and 1 or 0
  for i = 1, total do attempts[i].heldAt, attempts[i].held = 0, 0 end
  if not (settles or changesSlots) then return isRepeated end
  keepUndone(note, first, place, settles, changesSlots)
  changeAll(first, place)
  local set = {}
  if settles then set[1], set[2] = 'settled', '1' end
  if changesSlots and not renews then set[#set + 1], set[#set + 2] = 'released', '1' end
  for i = 1, renews and total or 0 do
    local attempt = attempts[i]
    set[#set + 1], set[#set + 2] = placeOf(attempt, first), format('%.17g %.17g', attempt.heldAt, attempt.held)
  end
  writeNote(key, note, set, kept)
  return isRepeated
end
