/**
 * What comes first: short names, and the time, read once. Redis makes a script's functions and tables anew for each call, and
 * each costs as much as a good part of a step: hence there are as few as can be, and none before it is needed.
 */
export function luaHead(ownClock: boolean, slack: number): string {
  return `
local call = redis.call
local pack, unpacked, find, match = struct.pack, struct.unpack, string.find, string.match

-- Microseconds, and seconds. A clock that is not the server's does not know when the server forgets.
local place, now = 1
${ownClock ? OWN_CLOCK : SERVER_CLOCK}
local second, slack, foreign = now / 1000000, ${slack / 1000}, ${String(ownClock)}
`
}

const OWN_CLOCK = 'now, place = tonumber(ARGV[1]), 2'
const SERVER_CLOCK = `
local time = call('TIME')
now = time[1] * 1000000 + time[2]
`

/** The limits that are spoken of. All that a state depends on is in the signature of its limit. */
export const luaPolicies: string = String.raw`
local policies = {}
for i = 1, ARGV[place] do
  local signature, mark, block = ARGV[place + 2 * i], '', 0
  if find(signature, ';', 1, true) then signature, mark, block = match(signature, '(.*);(.*);(.*)') end
  local kind, p = known(signature)
  if mark == 'strict' then p.strict = 1 end
  policies[i] = {
    field = ARGV[place + 2 * i - 1],
    signature = signature,
    prefix = signature .. '\0',
    cellsAt = #signature + 2,
    kind = kind,
    step = kind.twin.step,
    p = p,
    tick = p.perMs == 1000 and now or floor(now / 1000),
    perSecond = p.perMs * 1000,
    strict = mark == 'strict',
    shadow = mark == 'shadow',
    block = block + 0,
  }
end
place = place + 2 * #policies + 1
`
