import { luaKeep, luaProlong } from './expiry.ts'
import { luaSay } from './reply.ts'

/**
 * One unit of one limit, for each key: what nearly every call asks. It is decided as any other transaction would be
 * (`transaction.ts`), but in one loop, and with nothing made for what is not needed: that takes a fifth less.
 */
export const luaAlone: string = `
local function work()
  local field, signature = ARGV[place + 1], ARGV[place + 2]
  if ARGV[place] ~= '1' or ARGV[place + 3] or find(signature, ';', 1, true) then return makeGeneral().work() end
  local kind, p = known(signature)
  if kind.entries or kind.numbers > 7 then return makeGeneral().work() end

  local step, format, numbers, blank = kind.twin.step, kind.format, kind.numbers, kind.blank
  local prefix, tick, perSecond = signature .. '\\0', p.perMs == 1000 and now or floor(now / 1000), p.perMs * 1000
  local cost, admitted, room, out = 1, true, { 0, 0, 0, 0, 0, 0, 0, 0 }, {
    allowed = false, at = 0, retry = 0, remaining = 0, reset = 0, delay = 0, charged = 0, persist = false,
    next = { 0, 0, 0, 0, 0, 0, 0 }, edit = false,
  }
  local next = out.next
  while turn < #KEYS do
    turn = turn + 1
    local key = KEYS[turn]
    local value, s = call('HGET', key, field), blank
    if value and find(value, prefix, 1, true) ~= 1 then
      makeGeneral().decideUsual()
    else
      if value then
        s = room
        s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8] = unpacked(format, value, #prefix + 1)
      end
      step(p, s, tick, cost, out)
      local allowed = out.allowed
      if allowed or out.persist then
        local kept, lasting = s[numbers], out.reset / perSecond
${luaKeep}
        next[numbers] = kept
        call('HSET', key, field, prefix .. pack(format, next[1], next[2], next[3], next[4], next[5], next[6], next[7]))
        if needed then ${luaProlong('key', 'needed', 'needed')} end
      end
      local charged = allowed
${luaSay}
    end
  end
end
`
