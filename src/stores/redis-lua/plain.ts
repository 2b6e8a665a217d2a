import { luaKeep, luaProlong } from './expiry.ts'
import { luaSay } from './reply.ts'

/**
 * A transaction as nearly all are: of one key, its states written by the very limits that are asked, nothing locked. It is decided as any other would be (`transaction.ts`), but in one function, and with nothing made for what
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
      if kind.numbers < 8 then
        s = ask.room
        s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8] = unpacked(kind.format, value, policy.cellsAt)
      else
        s = { unpacked(kind.format, value, policy.cellsAt) }
      end
    end
    ask.s = s
    local E = kind.entries and kind.entries.aimed(ask, key, s, value)
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
  local any, lasting, kept = false, 0, huge
  for i = 1, count do
    local ask = asks[i]
    local policy, out = ask.policy, ask.out
    ask.charged = false
    if ask.cost > 0 and (out.allowed and (admitted or policy.strict) or not out.allowed and out.persist) then
      ask.charged = true
      any = true
      lasting = max(lasting, out.reset / policy.perSecond)
      kept = min(kept, ask.s[policy.kind.numbers])
    end
  end
  if any and mode ~= 'peek' then
${luaKeep}
    local n = 0
    for i = 1, count do
      local ask = asks[i]
      if ask.charged then
        local policy, next = ask.policy, ask.out.next
        local kind = policy.kind
        local numbers, packed = kind.numbers
        local open = ''
        if kind.entries then open, n = kind.entries.edited(ask, set, n) end
        next[numbers] = kept
        if numbers < 8 then
          packed = pack(kind.format, next[1], next[2], next[3], next[4], next[5], next[6], next[7])
        else
          packed = pack(kind.format, unpack(next, 1, numbers))
        end
        set[n + 1] = policy.field
        set[n + 2] = policy.prefix .. packed .. open
        n = n + 2
      end
    end
    call('HSET', key, unpack(set, 1, n))
    for i = 1, count do
      local ask = asks[i]
      if ask.charged and ask.policy.kind.entries then inSlices('HDEL', key, ask.gone) end
    end
    if needed then ${luaProlong('key', 'needed', 'needed')} end
  end
`

/** A charge that others denied tells what its limit holds without it. */
const says = String.raw`
  for i = 1, count do
    local ask = asks[i]
    local policy, out, cost = ask.policy, ask.out, ask.cost
    local allowed = out.allowed
    if allowed and not admitted and cost > 0 and not policy.strict then
      policy.step(policy.p, ask.s, policy.tick, 0, out, ask.E)
    end
    local tick, charged = policy.tick, allowed and admitted and cost > 0 and mode ~= 'peek'
${luaSay}
  end
`

export const luaPlain: string = `
local function plainly(mode, key)
${steps}${keeps}${says}
  return true
end
`
