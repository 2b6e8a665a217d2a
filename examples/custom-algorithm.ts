// An algorithm of one's own, in one file: `coolDown`, so many units, then nothing until the key has paused for a window.
// It fits what costs money by the message: three codes by text, then ten minutes of rest after the last one.
import express from 'express'
import { type Algorithm, defineAlgorithm, type Outcome, type Parameters, type PlanInput } from 'sluice'
import { byIP, rateLimit } from 'sluice/express'
import { serve } from './visits.ts'

// State `(first, last, used)`: when a run of units began, when it last grew, and how many it holds. All times are whole ticks
// that are handed in; a step reads no clock and changes no state, it only says what would follow.
type Name = 'quota' | 'pause'

function plan(input: PlanInput): Record<Name, number> {
  return { quota: input.quota, pause: input.window }
}

function step(p: Parameters<Name>, s: Float64Array, at: number, now: number, n: number, out: Outcome): void {
  const first = s[at]!
  const last = s[at + 1]!
  const held = s[at + 2]!
  const resting = held > 0 && now < last + p.pause
  const used = resting ? held : 0
  const t = resting ? Math.max(now, last) : now

  const allowed = n === 0 || n <= p.quota - used
  const persist = !allowed && p.strict === 1
  const kept = allowed ? used + n : persist ? Math.max(used, p.quota) : used
  const grown = persist || (allowed && n > 0)
  const left = (grown ? t : last) + p.pause - now

  out.allowed = allowed
  out.at = t
  out.retry = allowed ? 0 : n > p.quota ? Infinity : left
  out.remaining = Math.max(0, p.quota - kept)
  out.reset = kept > 0 ? left : 0
  out.delay = 0
  out.charged = n
  out.persist = persist
  out.next[0] = resting ? first : t
  out.next[1] = t
  out.next[2] = kept
}

/** Gives units back, or charges more, for a request that was charged at `then`. */
function adjust(
  p: Parameters<Name>,
  s: Float64Array,
  at: number,
  now: number,
  then: number,
  units: number,
  out: Outcome,
): void {
  const first = s[at]!
  const last = s[at + 1]!
  const held = s[at + 2]!
  const resting = held > 0 && now < last + p.pause
  out.persist = units > 0 || (resting && then >= first)
  out.next[0] = resting ? first : now
  out.next[1] = resting ? last : now
  out.next[2] = Math.max(0, (resting ? held : 0) + units)
}

/** Carries a key over to a limit that has changed: what was used stays used, and times are told in the new ticks. */
function convert(
  p: Parameters<Name>,
  from: Parameters<Name>,
  s: Float64Array,
  at: number,
  now: number,
  out: Outcome,
): void {
  const first = s[at]!
  const last = s[at + 1]!
  const held = s[at + 2]!
  const resting = held > 0 && now < Math.ceil(((last + from.pause) * p.perMs) / from.perMs)
  out.next[0] = Math.ceil((first * p.perMs) / from.perMs)
  out.next[1] = Math.ceil((last * p.perMs) / from.perMs)
  out.next[2] = resting ? Math.min(held, p.quota) : 0
}

// The twins, line beside line, for stores that decide where the state is.
const lua = `
local function step(p, s, now, n, out)
  local first, last, held = s[1], s[2], s[3]
  local resting = held > 0 and now < last + p.pause
  local used = resting and held or 0
  local t = resting and math.max(now, last) or now

  local allowed = n == 0 or n <= p.quota - used
  local persist = not allowed and p.strict == 1
  local kept = allowed and used + n or persist and math.max(used, p.quota) or used
  local grown = persist or (allowed and n > 0)
  local left = (grown and t or last) + p.pause - now

  out.allowed = allowed
  out.at = t
  out.retry = allowed and 0 or n > p.quota and math.huge or left
  out.remaining = math.max(0, p.quota - kept)
  out.reset = kept > 0 and left or 0
  out.delay = 0
  out.charged = n
  out.persist = persist
  out.next[1] = resting and first or t
  out.next[2] = t
  out.next[3] = kept
end

local function adjust(p, s, now, before, units, out)
  local first, last, held = s[1], s[2], s[3]
  local resting = held > 0 and now < last + p.pause
  out.persist = units > 0 or (resting and before >= first)
  out.next[1] = resting and first or now
  out.next[2] = resting and last or now
  out.next[3] = math.max(0, (resting and held or 0) + units)
end

local function convert(p, from, s, now, out)
  local first, last, held = s[1], s[2], s[3]
  local resting = held > 0 and now < math.ceil((last + from.pause) * p.perMs / from.perMs)
  out.next[1] = math.ceil(first * p.perMs / from.perMs)
  out.next[2] = math.ceil(last * p.perMs / from.perMs)
  out.next[3] = resting and math.min(held, p.quota) or 0
end

return { step = step, adjust = adjust, convert = convert }
`

const algorithm: Algorithm<Name> = {
  name: 'coolDown',
  options: [], // none beside those of every limit
  parameters: ['quota', 'pause'],
  blank: [0, 0, 0],
  plan,
  largest: (p) => p.quota,
  step,
  adjust,
  convert,
  lua,
}

/** Makes limits by this algorithm; from here on `limit({ algorithm: 'coolDown', … })` knows it, too. */
export const coolDown = defineAlgorithm(algorithm)

const app = express()
app.use(rateLimit({ keyer: byIP, limits: coolDown({ quota: 3, window: '10m', name: 'codes' }) }))
app.post('/codes', (_request, response) => {
  response.send('a code is on its way')
})

const server = app.listen(Number(process.env.PORT ?? 0), '127.0.0.1')
await serve(server, ['POST /codes', 'POST /codes', 'POST /codes', 'POST /codes'])
