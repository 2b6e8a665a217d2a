/**
 * A transaction as nearly all are: of one key, its states written by the very limits that are asked, nothing locked. It is decided as any other would be (`redis-lua-transaction.ts`), but in one function, and with nothing made for what
 * is not needed.
 */

/** Reads and steps all; leaves with false, nothing changed, where it is not as nearly always. */
const steps = String.raw`
  local admitted = mode ~= 'refuse'
  local values
  if count > 1 then values = call('HMGET', key, unpack(fields, 1, count)) end
  for i = 1, count do
    local ask = asks[i]
    local policy, out = ask.policy, ask.out
    local kind = policy.kind
    local s, value = kind.blank
    if values then value = values[i] else value = call('HGET', key, policy.field) end
    if value then
      if find(value, policy.prefix, 1, true) ~= 1 then return false end
      if kind.numbers == 3 then
        s = ask.pair
        s[1], s[2], s[3] = unpacked(kind.format, value, policy.cellsAt)
      else
        s = { unpacked(kind.format, value, policy.cellsAt) }
      end
    end
    ask.s = s
    local E = kind.entries and rarely().aimed(ask, key, s, value)
    policy.step(policy.p, s, policy.tick, ask.cost, out, E)
    if not out.allowed then
      if policy.block > 0 then return false end
      if not policy.shadow then admitted = false end
    end
  end
`

/**
 * Writes what is charged. Beside it stands how long the key is known to be kept, which is longer than need be, so that its
 * expiry is seldom looked at.
 */
const keeps = String.raw`
  local any, needed, lasting = false, 0, 0
  for i = 1, count do
    local ask = asks[i]
    local policy, out = ask.policy, ask.out
    ask.charged = false
    if ask.cost > 0 and (out.allowed and (admitted or policy.strict) or not out.allowed and out.persist) then
      ask.charged = true
      any = true
      lasting = max(lasting, out.reset / policy.perSecond)
      if second + lasting + slack > ask.s[policy.kind.numbers] then needed = lasting + slack end
    end
  end
  if any and mode ~= 'peek' then
    local kept
    if needed > 0 then
      needed = needed + min(lasting / 4, 3600)
      kept = foreign and 0 or floor(second + needed)
    end
    local n = 0
    for i = 1, count do
      local ask = asks[i]
      if ask.charged then
        local policy, next = ask.policy, ask.out.next
        local kind = policy.kind
        local numbers, packed = kind.numbers
        local open = ''
        if kind.entries then next[numbers - 2], next[numbers - 1], open, n = rare.edited(ask, n) end
        next[numbers] = kept or ask.s[numbers]
        if kind.numbers == 3 then packed = pack(kind.format, next[1], next[2], next[3])
        else packed = pack(kind.format, unpack(next, 1, numbers)) end
        set[n + 1] = policy.field
        set[n + 2] = policy.prefix .. packed .. open
        n = n + 2
      end
    end
    call('HSET', key, unpack(set, 1, n))
    for i = 1, count do
      local ask = asks[i]
      if ask.charged and ask.policy.kind.entries then rare.inSlices('HDEL', key, ask.gone) end
    end
    if kept then prolong(key, needed, needed) end
  end
`

/** Shorter for a charge that came to what was asked, for one that was denied, and for one that others denied. */
const says = String.raw`
  for i = 1, count do
    local ask = asks[i]
    local policy, out, cost = ask.policy, ask.out, ask.cost
    local allowed, at, units = out.allowed, out.at, out.charged
    if allowed and not admitted and cost > 0 and not policy.strict then
      policy.step(policy.p, ask.s, policy.tick, 0, out, ask.E)
    end
    local remaining, reset, retry = out.remaining, out.reset, out.retry
    if not (allowed and admitted) or cost == 0 or mode == 'peek' then at, units = 0, 0 end
    if
      out.delay ~= 0 or remaining < 0 or remaining % 1 ~= 0 or reset % 1 ~= 0 or retry % 1 ~= 0
      or (at ~= 0 and (at ~= policy.tick or units ~= cost))
    then
      rarely().sayAll(allowed, remaining, retry, reset, out.delay, 0, at, units)
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
  end
`

export const luaPlain: string = `
local function plainly(mode, key)
${steps}${keeps}${says}
  return true
end
`
