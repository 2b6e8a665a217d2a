/** The reply of a call, which `../reply.ts` reads. A charge that was made as requested, or that was denied, has a short form. */
export const luaReply: string = String.raw`
-- Adds a number. Whole ones go as they are; a reply would cut off the rest of others.
local function addReply(value)
  if value == huge then value = -1 elseif type(value) == 'number' and value % 1 ~= 0 then value = format('%.17g', value) end
  replied = replied + 1
  reply[replied] = value
end

local function replyInFull(attempt, isCharged, retry)
  reply[replied + 1] = -3
  replied = replied + 1
  addReply(attempt.allowed and 1 or 0)
  addReply(attempt.remaining)
  addReply(retry)
  addReply(attempt.reset)
  addReply(attempt.delay)
  addReply(attempt.lockedFor)
  addReply(isCharged and attempt.at or 0)
  addReply(isCharged and attempt.charged or 0)
end

-- Notes what the short form of a reply has no room for, once it is known to be numbers.
local function noteDetails(attempt, at, retry, delay, charged)
  if not (attempt.remaining > -huge and attempt.reset < huge and retry >= 0 and at < huge and delay < huge and charged < huge) then
    error('the result is not a number', 0)
  end
  attempt.isDetailed, attempt.at, attempt.delay, attempt.charged, attempt.lockedFor = true, at, delay, charged, 0
end
`
