/** Short names for what is called often. */
export const luaNames: string = `
local call = redis.call
local pack, unpacked, find, match, sub = struct.pack, struct.unpack, string.find, string.match, string.sub
`

/** Room for all that a step writes. */
export const luaOutcome: string = `{
  allowed = false, at = 0, retry = 0, remaining = 0, reset = 0, delay = 0, charged = 0, persist = false,
  next = { 0, 0, 0 }, edit = false,
}`

/**
 * What comes first: short names, and the time, read once. Redis makes a script's functions and tables anew for each call, and
 * each costs as much as a good part of a step: hence there are as few as can be, and none before it is needed.
 */
export function luaHead(ownClock: boolean, slack: number): string {
  return `${luaNames}
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
