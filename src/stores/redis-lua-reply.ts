/** What a charge comes to when there is much to say, and what went wrong. `redis-reply.ts` reads it. */
export const luaReply: string = String.raw`
local sub = string.sub

-- Whole numbers go as they are; a reply would cut off the rest of others.
local function say(value)
  if value == huge then value = -1 elseif value % 1 ~= 0 then value = string.format('%.17g', value) end
  said = said + 1
  reply[said] = value
end

function rare.sayAll(allowed, remaining, retry, reset, delay, told, at, units)
  reply[said + 1] = -3
  said = said + 1
  say(allowed and 1 or 0)
  say(remaining)
  say(retry)
  say(reset)
  say(delay)
  say(told)
  say(at)
  say(units)
end

function rare.sayFailure(failure)
  -- A step that failed may have left the parameters as it had borrowed them.
  for _, policy in ipairs(policies) do policy.p.strict = policy.strict and 1 or 0 end
  said = said + 1
  reply[said] = tostring(type(failure) == 'table' and failure.err or failure)
end
`
