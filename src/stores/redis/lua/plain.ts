import { luaKeep, luaProlong } from './expiry.ts'
import { luaSay } from './reply.ts'

/**
 * A transaction as nearly all are: of one key, its states written by the very limits that are asked, nothing locked. It is decided
 * as any other would be (`transaction.ts`), but in one function, and with nothing made for what is not needed, which takes half as
 * long: 7 µs instead of 14 for three limits. Most of that it looks into tables: what can be asked of one once is not asked twice.
 */

/** Reads and steps all; leaves with false, nothing changed, where it is not as nearly always. */
const steps = String.raw`
  local admitted, lasting, kept, values = mode ~= 'refuse', 0, huge
  if count > 1 then values = call('HMGET', key, unpack(fields, 1, count)) end
  for i = 1, count do
    local ask = asks[i]
    local policy, out = ask.policy, ask.out
    local kind = policy.kind
    local numbers, s, value = kind.numbers, kind.blank
    if values then value = values[i] else value = call('HGET', key, policy.field) end
    if value then
      if find(value, policy.prefix, 1, true) ~= 1 then return false end
      if numbers == 3 then
        s = ask.room
        s[1], s[2], s[3] = unpacked(kind.format, value, policy.cellsAt)
      else
        s = { unpacked(kind.format, value, policy.cellsAt) }
      end
    end
    ask.s = s
    policy.step(policy.p, s, policy.tick, ask.cost, out, kind.entries and kind.entries.aimed(ask, key, s, value))
    if not out.allowed then
      if policy.block > 0 then return false end
      if not policy.shadow then admitted = false end
    end
    if ask.cost > 0 then
      local lasts, known = out.reset / policy.perSecond, s[numbers]
      if lasts > lasting then lasting = lasts end
      if known < kept then kept = known end
    end
  end
`

/**
 * Writes what is charged. Beside it stands how long the key is known to be kept, which is longer than need be, so that its
 * expiry is seldom looked at.
 */
const keeps = String.raw`
  if mode ~= 'peek' then
${luaKeep}
    local n, gone = 0
    for i = 1, count do
      local ask = asks[i]
      local policy, out = ask.policy, ask.out
      local allowed = out.allowed
      if ask.cost > 0 and (allowed and (admitted or policy.strict) or not allowed and out.persist) then
        local kind, next, open = policy.kind, out.next, ''
        if kind.entries then
          open, n = kind.entries.edited(ask, set, n)
          gone = true
        end
        local numbers = kind.numbers
        next[numbers] = kept
        set[n + 1], set[n + 2] = policy.field, policy.prefix .. pack(kind.format, unpack(next, 1, numbers)) .. open
        n = n + 2
      end
    end
    if n > 0 then
      call('HSET', key, unpack(set, 1, n))
      if gone then dropFields(key) end
      if needed then ${luaProlong('key', 'needed', 'needed')} end
    end
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
-- The fields of entries that have fallen away.
local function dropFields(key)
  for i = 1, count do
    if asks[i].gone then inSlices('HDEL', key, asks[i].gone) end
  end
end

local function plainly(mode, key)
${steps}${keeps}${says}
  return true
end
`
