-- Locks, and adjustments: units that are added later, or refunded, under the configuration that wrote the state.

-- The counterpart of `lockLength` in `engine/compiled-limit.ts`.
local function lockLength(block, growth, denials)
  if denials % growth.after ~= 0 then return 0 end
  local length, step, steps = block, 1, min(denials / growth.after, MOST_STEPS)
  while step < steps and length < growth.upTo do
    length, step = length * growth.factor, step + 1
  end
  return floor(min(length, growth.upTo))
end

-- Returns the microseconds of the lock-out that a denial begins; 0 if it begins none.
local function countDenial(attempt)
  local block, growth = attempt.block, attempt.growth
  if not growth then return block end
  local isOver = lockEnd(attempt.deniedAt, attempt.denialsUntil) <= now
  attempt.denials, attempt.deniedAt, attempt.counts = (isOver and 0 or attempt.denials) + 1, now, true
  local length = lockLength(block, growth, attempt.denials)
  attempt.denialsUntil = now + length + growth.memory
  return length
end

-- Keeps the lock-out that a denial begins, and the count of denials.
local function keepDenial(group, attempt)
  if group.isUsual then openRecords(group) end
  local length = countDenial(attempt)
  if length == 0 then return end
  noteDetails(attempt, 0, attempt.retry, 0, 0)
  attempt.lock, attempt.locks, attempt.lockedFor, attempt.remaining = now + length, true, length, 0
  attempt.lockedSince = now
end

-- Steps a limit whose key is locked out: nothing is charged, and the wait is the longer one of the algorithm and the lock. The change of state by
-- a denial is kept here, too, because the wait was computed from it.
local function stepLocked(attempt)
  local params, cells, tick = attempt.params, attempt.cells, attempt.isMicro and now or millis
  local ending = lockEnd(attempt.lockedSince, attempt.lock)
  if ending ~= attempt.lock then
    attempt.lock, attempt.lockedSince, attempt.locks = ending, now, attempt.cost > 0
  end
  if attempt.strict then params = parametersOf(attempt.kind, attempt.signature, '') end
  local state = { attempt.step(params, cells, attempt.offset, tick, attempt.cost, attempt.entries) }
  local retry, persist = state[3], state[8]
  if not persist then state = { attempt.step(params, cells, attempt.offset, tick, 0, attempt.entries) } end
  local at, reset, delay = state[2], state[5], state[6]
  for k = 1, attempt.width do attempt.next[attempt.offset + k] = state[8 + k] end
  attempt.allowed, attempt.persist = attempt.cost == 0, persist or attempt.isCarriedOver and reset > 0
  attempt.retry = attempt.allowed and 0 or retry
  attempt.remaining, attempt.reset = 0, reset
  noteDetails(attempt, at, attempt.retry, delay, 0)
  attempt.lockedFor = attempt.lock - now
end

-- Reports a limit without a charge that another limit has denied.
local function stepUncharged(attempt)
  local tick = attempt.isMicro and now or millis
  local _, at, _, remaining, reset, delay =
    attempt.step(attempt.params, attempt.cells, attempt.offset, tick, 0, attempt.entries)
  attempt.remaining, attempt.reset = remaining, reset
  noteDetails(attempt, at, 0, delay, 0)
  attempt.isDetailed = delay ~= 0 or remaining % 1 ~= 0 or reset % 1 ~= 0
  return remaining, reset
end

-- Returns the entries after a step.
local function entriesAfter(entries)
  local drop, time, cost, after = entries.drop, entries.pushTime, entries.pushCost, {}
  local left = max(0, entries.costUntil(huge) - drop)
  function after.costUntil(last)
    return max(0, entries.costUntil(last) - drop) + (time <= last and cost or 0)
  end
  function after.timeOf(wanted)
    if wanted <= left then return entries.timeOf(wanted + drop) end
    return wanted <= left + cost and time or -huge
  end
  function after.edit() end
  return after
end

-- Returns how long a strict limit denies after a charge that it has kept although another limit has denied the request.
local function waitAfter(attempt)
  local tick, entries = attempt.isMicro and now or millis, attempt.entries
  local params = parametersOf(attempt.kind, attempt.signature, '')
  local _, _, retry =
    attempt.step(params, attempt.next, attempt.offset, tick, attempt.cost, entries and entriesAfter(entries))
  if not attempt.isDetailed then noteDetails(attempt, 0, retry, 0, 0) end
  return retry
end

-- Keeps a state that was carried over, without a charge that another limit has denied, so that the state is only rounded once. Returns whether
-- it is kept.
local function keepsCarriedOver(attempt)
  if not attempt.isCarriedOver or groups[attempt.key].isUsual then return false end
  local tick = attempt.isMicro and now or millis
  local state = { attempt.step(attempt.params, attempt.cells, attempt.offset, tick, 0, attempt.entries) }
  for k = 1, attempt.width do attempt.next[attempt.offset + k] = state[8 + k] end
  return writes
end

-- Returns the algorithm and the signature that wrote the state of a charge, and its cells. Returns nothing if the state has expired: such a state
-- may also be absent.
local function writtenState(attempt, key)
  local kind, record = writerOf(attempt), attempt.record
  if not kind or attempt.entries and not attempt.value then return nil end
  local params = parametersOf(kind, record.signature, '')
  local tick = tickOf(params)
  local cells = attempt.entries and openLog(attempt, key, kind.cells, kind.format) or { unpack(record.cells) }
  if isAhead(kind, params, cells, 0, tick) then moveToPresent(attempt, kind, params, cells, 0, tick) end
  if resetOf(kind, params, cells, 0, tick, attempt.entries) > 0 then return kind, record.signature, cells end
end

-- Prepares an adjusted state for writing.
local function keepAdjusted(group, attempt, kind, signature, before, state)
  noteChange(group, attempt, signature)
  local isLog, cells = attempt.entries, { unpack(state, 2, kind.cells + 1) }
  if isLog then
    keepLog(attempt, kind, cells, group)
    goOn(isLog)
  elseif attempt.record and attempt.record.isLog then
    dropLogs(group, { [attempt.name] = true })
  end
  attempt.record = {
    name = attempt.name, width = kind.cells, isLog = isLog, signature = signature, cells = isLog and {} or cells,
  }
  local params = parametersOf(kind, signature, '')
  keepCut(attempt, kind, params, before, cells, 0, attempt.record)
  local reset = resetOf(kind, params, cells, 0, tickOf(params), attempt.entries)
  group.changes, group.lasting = true, max(group.lasting, reset / params.perMs / 1000)
end

-- Returns true if a state contains the charges of a limit: a state of the limit itself, or slots, which keep their times when their limit changes.
local function isSameState(attempt, kind, signature)
  if signature == attempt.signature then return true end
  return kind and kind.slots and kind == attempt.kind
    and parametersOf(kind, signature, '').perMs == attempt.params.perMs
end

-- Returns true if a charge still counts: its limit has not changed since, the key was not reset, and its time is not from a clock that was
-- ahead. A released charge was made after a change in the same tick.
local function isUndisturbed(attempt, chargedAt)
  local micros = 1000 / attempt.params.perMs
  local charged = chargedAt * micros
  local isAfter = charged + (plan.mode == 'release' and micros or 0) > attempt.changedAt
  return (attempt.change <= now or isAfter) and charged <= now + TOLERANCE_MS * 1000
end

-- Returns true if it is known how much of a charge is left. It is unknown if another limit has drained the state, or a clock that was ahead wrote it.
local function isCertain(attempt, kind, signature, chargedAt)
  return isSameState(attempt, kind, signature) and not attempt.isCarriedOver and isUndisturbed(attempt, chargedAt)
end

-- Returns the state of a limit whose written state has expired, except the units that were cut off.
local function emptyState(group, attempt)
  local from = attempt.cut > 0 and attempt.record.signature ~= attempt.signature and writerOf(attempt)
  local cells = from and convertState(attempt, from, attempt.record.cells) or attempt.kind.blank
  if attempt.entries then openCleared(attempt, group.key) end
  return attempt.kind, attempt.signature, cells
end

local function adjust(group, attempt, units, chargedAt)
  current = attempt
  local kind, signature, cells = writtenState(attempt, group.key)
  if units < 0 and not isCertain(attempt, kind, signature, chargedAt) then return end
  if not kind then kind, signature, cells = emptyState(group, attempt) end
  local params = parametersOf(kind, signature, '')
  chargedAt = rescale(chargedAt, attempt.params, params)
  if attempt.entries then attempt.entries.edit(0, 0, 0, 0, 0) end
  local state = { twinOf(kind).adjust(params, cells, 0, tickOf(params), chargedAt, units, attempt.entries) }
  if state[1] then keepAdjusted(group, attempt, kind, signature, cells, state) end
end

-- Makes the slots of a charge start now. Without a receipt, expired slots are taken again if there is room, unless the key was reset since. Stores
-- the new tick of the slots in the attempt, and how many are held.
local function renew(group, attempt, units, chargedAt)
  current, attempt.heldAt, attempt.held = attempt, 0, 0
  if not isUndisturbed(attempt, chargedAt) then return end
  local kind, signature, cells = writtenState(attempt, group.key)
  local takes = not plan.isOnce
  if kind and not isCertain(attempt, kind, signature, chargedAt) then return end
  if not kind then
    if not takes or attempt.record and lifeOf(group, attempt.record, 0) > 0 then return end
    kind, signature, cells = emptyState(group, attempt)
  end
  local params = parametersOf(kind, signature, '')
  local state = { twinOf(kind).renew(params, cells, 0, tickOf(params), chargedAt, units, takes, attempt.entries) }
  if not state[1] then return end
  attempt.heldAt, attempt.held = state[kind.cells + 2], state[kind.cells + 3]
  keepAdjusted(group, attempt, kind, signature, cells, state)
end

-- Locks a key out for `length` microseconds; 0 ends a lock-out.
local function lock(group, attempt, length)
  if plan.mode == 'extend' and lockEnd(attempt.lockedSince, attempt.lock) >= now + length then return end
  local ending = length > 0 and now + length or 0
  if ending == 0 and attempt.lock == 0 then return end
  attempt.lock, attempt.lockedSince = ending, now
  group.changes, group.lasting = true, max(group.lasting, length / 1000000)
end

-- Refunds units in the usual case: the states are as this plan would write them, nothing is locked, and no limit has changed, so no records are
-- needed. Returns false in any other case, before anything is written.
local function refundUsual(group, key, place)
  read(group, key)
  if not group.isUsual then return false end
  local isChanged, isPartial = false, false
  for i = group.first, group.last do
    local attempt, units, chargedAt = attempts[i], args[place] + 0, args[place + 1] + 0
    current, attempt.isCharged, place = attempt, false, place + 2
    local kind, params, cells, offset = attempt.kind, attempt.params, attempt.cells, attempt.offset
    local tick, next, persist = attempt.isMicro and now or millis, attempt.next, false
    if units > 0 or isAhead(kind, params, cells, offset, tick) then return false end
    -- The parentheses matter: a thousand times the present microseconds is more than a number can represent exactly.
    if units < 0 and chargedAt * (1000 / params.perMs) <= now + TOLERANCE_MS * 1000 then
      if attempt.entries then attempt.entries.edit(0, 0, 0, 0, 0) end
      local state = { twinOf(kind).adjust(params, cells, offset, tick, chargedAt, units, attempt.entries) }
      persist = state[1]
      for k = 1, persist and attempt.width or 0 do next[offset + k] = state[1 + k] end
    end
    attempt.isCharged = persist
    if persist then isChanged = true else isPartial = true end
  end
  write(group, 0, isChanged, isPartial)
  return true
end

-- Changes a key with records.
local function changeRecords(group, place)
  group.lasting, group.changes, group.set, group.gone = 0, false, {}, {}
  local values = call('HMGET', group.key, unpack(group.logs or { 'states' }))
  group.value = values[1]
  openRecords(group)
  clear(group)
  local at = 1
  for i = group.first, group.last do
    local attempt, units = attempts[i], args[place] + 0
    if attempt.entries then
      at = at + 1
      attempt.value = values[at]
    end
    attempt.isCharged = false
    if units ~= 0 or plan.changes ~= adjust then plan.changes(group, attempt, units, args[place + 1] + 0) end
    place = place + 2
  end
end

-- Adjusts, renews or locks all charges of a transaction. Each charge has two arguments: units or microseconds, and the tick of the charge.
local function changeAll(first, place)
  for g = 1, width do
    local group = groups[g]
    group.key, group.changes = keys[first + g], false
    if plan.changes ~= adjust or not refundUsual(group, group.key, place) then changeRecords(group, place) end
    place = place + 2 * (group.last - group.first + 1)
  end
  current = false
  for g = 1, width do
    local group = groups[g]
    -- The second until which the key is kept is unknown here, so the next write looks it up.
    if group.changes then
      setRecords(group, 0)
      writeFields(group, group.lasting + 2 * slack)
    end
  end
end

-- Resets: the state of a key is deleted, and earlier charges are not refunded.

-- Replaces the state of each limit of a key by the time until which the state would have counted. Earlier charges are not refunded until then.
-- Returns whether there was a state.
local function reset(group)
  openRecords(group)
  local notes, isHeld = {}, false
  for _, record in ipairs(group.records) do
    local ending = max(record.change, now + lifeOf(group, record, 0))
    isHeld = isHeld or record.signature ~= '' or record.lock > now
    if ending > now then
      notes[#notes + 1] = {
        name = record.name, width = 0, isLog = false, signature = '', cells = {}, lock = 0, change = ending, changedAt = now, denials = 0, cut = 0,
      }
      group.lasting = max(group.lasting, (ending - now) / 1000000)
    end
  end
  group.records = notes
  if #notes > 0 then setRecords(group, 0) end
  return isHeld
end

-- Deletes the state of a key, even if it cannot be read. Returns 1 if there was a state. Only the first write of a call can fail for lack of memory,
-- so the key is deleted first: no server refuses this.
local function forget(key)
  local group = { key = key, first = 1, last = 0, attempts = {}, cells = { 0 }, set = {}, gone = {}, lasting = 0 }
  local isRead, isHeld = pcall(function()
    group.value = call('HGET', key, 'states')
    return reset(group)
  end)
  local deleted = call('DEL', key)
  if not isRead then return deleted end
  if #group.set > 0 then writeFields(group, group.lasting + 2 * slack) end
  return isHeld and 1 or 0
end
