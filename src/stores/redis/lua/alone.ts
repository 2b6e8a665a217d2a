import { luaKeep, luaProlong } from './expiry.ts'
import { luaOutcome } from './head.ts'
import { luaSay } from './reply.ts'

/**
 * One unit of one limit, for each key: what nearly every call asks. It is decided as `plain.ts` would, but in one loop, and without
 * the tables that several limits need, which takes a fifth less: 2.4 µs instead of 3.0, and 8.5 instead of 10.2 for one key.
 */
export const luaAlone: string = `
local function work()
  local field, signature = ARGV[place + 1], ARGV[place + 2]
  if ARGV[place] ~= '1' or ARGV[place + 3] or find(signature, ';', 1, true) then return makeGeneral().work() end
  local kind, p = known(signature)
  if kind.entries then return makeGeneral().work() end

  local step, format, numbers, blank = kind.twin.step, kind.format, kind.numbers, kind.blank
  local prefix, tick, perSecond = signature .. '\\0', p.perMs == 1000 and now or floor(now / 1000), p.perMs * 1000
  local cost, admitted, room, out = 1, true, { 0, 0, 0 }, ${luaOutcome}
  local next = out.next
  while turn < #KEYS do
    turn = turn + 1
    local key = KEYS[turn]
    local value, s = call('HGET', key, field), blank
    if value and find(value, prefix, 1, true) ~= 1 then
      makeGeneral().decideUsual()
    else
      if value and numbers == 3 then
        s = room
        s[1], s[2], s[3] = unpacked(format, value, #prefix + 1)
      elseif value then
        s = { unpacked(format, value, #prefix + 1) }
      end
      step(p, s, tick, cost, out)
      local allowed = out.allowed
      if allowed or out.persist then
        local kept, lasting = s[numbers], out.reset / perSecond
${luaKeep}
        next[numbers] = kept
        call('HSET', key, field, prefix .. pack(format, unpack(next, 1, numbers)))
        if needed then ${luaProlong('key', 'needed', 'needed')} end
      end
      local charged = allowed
${luaSay}
    end
  end
end
`
