import { luaLater } from './later.ts'

/** What the script answers, and what a charge comes to when there is much to say. `redis-reply.ts` reads it. */
export const luaReply: string = `
local reply, said = { now, nil, nil, nil, nil }, 1
${luaLater(
  'words',
  `
-- Whole numbers go as they are; a reply would cut off the rest of others.
function words.say(value)
  if value == huge then value = -1 elseif value % 1 ~= 0 then value = string.format('%.17g', value) end
  said = said + 1
  reply[said] = value
end

function words.sayAll(allowed, remaining, retry, reset, delay, told, at, units)
  reply[said + 1] = -3
  said = said + 1
  words.say(allowed and 1 or 0)
  words.say(remaining)
  words.say(retry)
  words.say(reset)
  words.say(delay)
  words.say(told)
  words.say(at)
  words.say(units)
end
`,
)}`

/**
 * Says what `out` comes to: shorter for a charge that came to what was asked, for one that was denied, and for one that others
 * denied. It stands in its place and is no function, since that would be slower.
 */
export const luaSay: string = `
  local remaining, reset, retry, at, units = out.remaining, out.reset, out.retry, out.at, out.charged
  if not charged then at, units = 0, 0 end
  if
    out.delay ~= 0 or remaining < 0 or remaining % 1 ~= 0 or reset % 1 ~= 0 or retry % 1 ~= 0
    or (at ~= 0 and (at ~= tick or units ~= cost))
  then
    makeWords().sayAll(allowed, remaining, retry, reset, out.delay, 0, at, units)
  elseif not allowed then
    reply[said + 1], reply[said + 2], reply[said + 3], reply[said + 4] = -1, remaining, reset, retry
    said = said + 4
  elseif not admitted then
    reply[said + 1], reply[said + 2], reply[said + 3] = -2, remaining, reset
    said = said + 3
  else
    reply[said + 1], reply[said + 2] = remaining, reset
    said = said + 2
  end
`
