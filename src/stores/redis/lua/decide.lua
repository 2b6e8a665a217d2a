-- Decides a transaction: reads all its limits, steps all, and then writes all or nothing.
--
-- A server that is out of memory can only refuse the first write of a call, so all writes of a transaction succeed or none.

-- Steps every limit of a transaction and writes nothing. The keys of the transaction come after `first`. Returns whether the enforced limits admit
-- the request.
local function evaluate(first)
  local admitted, index, isUsual = admits, first
  for i = 1, total do
    local attempt = attempts[i]
    local group = attempt.opens
    if group then
      index = index + 1
      read(group, keys[index])
      isUsual = group.isUsual
    end
    current = attempt
    local tick, offset = attempt.isMicro and now or millis, attempt.offset
    if isAhead(attempt.kind, attempt.params, attempt.cells, offset, tick) then
      -- Records are opened so that a limit that is not charged keeps its record.
      group = group or groups[attempt.key]
      if group.isUsual then openRecords(group) end
      isUsual = false
      moveToPresent(attempt, attempt.kind, attempt.params, attempt.cells, offset, tick)
    end
    if isUsual or attempt.lock <= now then
      local cost, count, next = attempt.cost, attempt.width, attempt.next
      local allowed, at, retry, remaining, reset, delay, charged, persist, n1, n2, n3, n4, n5, n6, n7, n8 =
        attempt.step(attempt.params, attempt.cells, offset, tick, cost, attempt.entries)
      attempt.allowed = allowed
      attempt.remaining = remaining
      attempt.reset = reset
      attempt.isDetailed = false
      next[offset + 1] = n1
      if count > 1 then
        next[offset + 2] = n2
        if count > 2 then
          next[offset + 3] = n3
          if count > 3 then keepMore(next, offset, count, n4, n5, n6, n7, n8) end
        end
      end
      if
        delay ~= 0 or at ~= tick or charged ~= cost or remaining % 1 ~= 0 or reset % 1 ~= 0
        or not (n1 <= huge and next[offset + count] <= huge) or not allowed and retry % 1 ~= 0
      then
        noteDetails(attempt, at, retry, delay, charged)
        checkCells(next, offset, count)
      end
      if not allowed then
        attempt.retry, attempt.persist = retry, persist or (not isUsual and attempt.isCarriedOver and reset > 0)
        if attempt.block > 0 then keepDenial(group or groups[attempt.key], attempt) end
        if not attempt.shadow then admitted = false end
      end
    else
      stepLocked(attempt)
      if not (attempt.allowed or attempt.shadow) then admitted = false end
    end
  end
  return admitted
end

-- Charges all limits or none, and replies. This is the only place that says what is charged.
local function commit(admitted)
  local lasting, isChanged, isPartial = 0, false, false
  for i = 1, total do
    local attempt = attempts[i]
    local cost, allowed, remaining, reset = attempt.cost, attempt.allowed, attempt.remaining, attempt.reset
    local isCharged = false
    if cost > 0 and (allowed and (admitted or attempt.strict) or not allowed and attempt.persist) then
      isCharged = writes
    else
      if allowed and not admitted and cost > 0 then
        remaining, reset = stepUncharged(attempt)
        isCharged = reset > 0 and keepsCarriedOver(attempt)
      end
    end
    if isCharged then isChanged, lasting = true, max(lasting, reset / attempt.perSecond) else isPartial = true end
    attempt.isCharged = isCharged
    local retry = allowed and 0 or attempt.retry
    if isCharged and attempt.strict and allowed and not admitted then retry = waitAfter(attempt) end
    if attempt.isDetailed or allowed and retry > 0 then replyInFull(attempt, isCharged and allowed and admitted, retry)
    else
      local place = replied
      if not allowed then
        reply[place + 1], reply[place + 2], reply[place + 3], reply[place + 4] = -1, remaining, reset, retry
        replied = place + 4
      elseif not admitted then
        reply[place + 1], reply[place + 2], reply[place + 3] = -2, remaining, reset
        replied = place + 3
      else
        reply[place + 1] = remaining
        reply[place + 2] = reset
        replied = place + 2
      end
    end
    local group = attempt.closes
    if group then
      if writes then write(group, lasting, isChanged, isPartial) end
      lasting, isChanged, isPartial = 0, false, false
    end
  end
end
