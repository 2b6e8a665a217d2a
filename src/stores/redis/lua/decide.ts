/**
 * Decides a transaction: reads all its limits, steps all, then writes all or nothing.
 *
 * A server that is out of memory refuses the first write of a call or none, so all writes of a transaction succeed or none.
 */
export const luaDecide: string = String.raw`
-- Steps every limit of a transaction and writes nothing. Returns whether the enforced limits admit the request.
local function evaluate(first)
  local admitted = admits
  for g = 1, width do
    local group = groups[g]
    local shared, isUsual = read(group, keys[first + g])
    local sharedNext = group.next
    for i = group.first, group.last do
      local attempt = attempts[i]
      current = attempt
      local cells, next, entries, cost = shared, sharedNext, attempt.entries, attempt.cost
      if entries then cells, next = attempt.cells, attempt.next end
      if isUsual or attempt.lock <= now then
        local tick, offset, count = attempt.isMicro and now or millis, attempt.offset, attempt.width
        local allowed, at, retry, remaining, reset, delay, charged, persist, n1, n2, n3, n4, n5, n6, n7, n8 =
          attempt.step(attempt.params, cells, offset, tick, cost, entries)
        attempt.allowed, attempt.remaining, attempt.reset, attempt.isDetailed = allowed, remaining, reset, false
        next[offset + 1] = n1
        if count > 1 then next[offset + 2] = n2 end
        if count > 2 then
          next[offset + 3] = n3
          if count > 3 then keepMore(next, offset, count, n4, n5, n6, n7, n8) end
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
          if attempt.block > 0 then lock(group, attempt) end
        end
      else
        stepLocked(attempt, cells, next)
      end
      if not (attempt.allowed or attempt.shadow) then admitted = false end
    end
  end
  return admitted
end

-- Charges all limits or none, and replies. This is the only place that says what is charged.
local function commit(first, admitted)
  for g = 1, width do
    local group = groups[g]
    local isUsual, lasting, isChanged, isPartial = group.isUsual and not group.logs, 0, false, false
    for i = group.first, group.last do
      local attempt = attempts[i]
      local cost, allowed, remaining, reset = attempt.cost, attempt.allowed, attempt.remaining, attempt.reset
      local isCharged = false
      if cost > 0 and (allowed and (admitted or attempt.strict) or not allowed and attempt.persist) then
        isCharged = writes
        local lasts = reset / attempt.perSecond
        if lasts > lasting then lasting = lasts end
      elseif allowed and not admitted and cost > 0 then
        remaining, reset = stepUncharged(attempt, group)
      end
      if isCharged then isChanged = true else isPartial = true end
      attempt.isCharged = isCharged
      if attempt.isDetailed then replyInFull(attempt, isCharged and allowed and admitted)
      elseif not allowed then
        reply[replied + 1], reply[replied + 2], reply[replied + 3], reply[replied + 4] = -1, remaining, reset, attempt.retry
        replied = replied + 4
      elseif not admitted then
        reply[replied + 1], reply[replied + 2], reply[replied + 3] = -2, remaining, reset
        replied = replied + 3
      else
        reply[replied + 1], reply[replied + 2] = remaining, reset
        replied = replied + 2
      end
    end
    if not writes then isChanged = false
    elseif isUsual then
      if isChanged then
        if isPartial then keepOthers(group) end
        write(group, keys[first + g], lasting)
      end
    else
      writeOther(group, lasting, isChanged)
    end
  end
end
`
