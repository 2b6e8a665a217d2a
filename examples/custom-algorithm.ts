// Run it: npm run build && npm run build:examples && node dist/examples/custom-algorithm.js
// With Node 22.18 or newer also: npm run build && node examples/custom-algorithm.ts
//
// A custom algorithm in one file. `coolDown` admits a quota per window. A client that takes the last unit then waits for a whole window.
// Use it for actions that cost money: three codes by text message, then none for ten minutes.
import express from 'express'
import { type Algorithm, defineAlgorithm, type LimitParameters, type Outcome, type ParameterInput } from 'sluice/extend'
import { byIP, rateLimit } from 'sluice/express'
import { serve } from './visits.ts'

// State `(first, last, used)`: when the first and the last unit were taken, and how many are taken. Times are whole ticks, and the
// current time is an argument. A step reads no clock and changes no state: it returns the next state.
type Name = 'quota' | 'window'

function deriveParameters(input: ParameterInput): Record<Name, number> {
  return { quota: input.quota, window: input.window }
}

/** Returns the start of the current window: the last unit if all are taken, otherwise the first. */
function beginning(p: LimitParameters<Name>, s: Float64Array, at: number): number {
  return s[at + 2]! < p.quota ? s[at]! : s[at + 1]!
}

function step(p: LimitParameters<Name>, s: Float64Array, at: number, now: number, n: number, out: Outcome): void {
  const open = s[at + 2]! > 0 && now < beginning(p, s, at) + p.window
  const t = open ? Math.max(now, s[at + 1]!) : now
  const used = open ? s[at + 2]! : 0

  const allowed = n === 0 || n <= p.quota - used
  const persist = !allowed && p.strict === 1
  const kept = allowed ? used + n : persist ? Math.max(used, p.quota) : used

  const first = open ? s[at]! : t
  const last = persist || (allowed && n > 0) ? t : s[at + 1]!
  const left = (kept < p.quota ? first : last) + p.window - now

  out.allowed = allowed
  out.at = t
  out.retry = allowed ? 0 : n > p.quota ? Infinity : left
  out.remaining = Math.max(0, p.quota - kept)
  out.reset = kept > 0 ? left : 0
  out.delay = 0
  out.charged = n
  out.persist = persist
  out.next[0] = first
  out.next[1] = last
  out.next[2] = kept
}

/** Refunds units, or charges more, for a request that was charged at `then`. */
function adjust(
  p: LimitParameters<Name>,
  s: Float64Array,
  at: number,
  now: number,
  then: number,
  units: number,
  out: Outcome,
): void {
  const open = s[at + 2]! > 0 && now < beginning(p, s, at) + p.window
  out.persist = units > 0 || (open && then >= s[at]!)
  out.next[0] = open ? s[at]! : now
  out.next[1] = open ? s[at + 1]! : now
  out.next[2] = Math.max(0, (open ? s[at + 2]! : 0) + units)
}

/** Returns a time in the ticks of another limit, rounded up. A tick is a microsecond, or a millisecond for large numbers. */
function inTicksOf(p: LimitParameters<Name>, from: LimitParameters<Name>, ticks: number): number {
  return p.perMs >= from.perMs ? ticks * (p.perMs / from.perMs) : Math.ceil(ticks / (from.perMs / p.perMs))
}

/** Converts a state to a limit that has changed: units used stay used, and a window of another length starts again. */
function convert(
  p: LimitParameters<Name>,
  from: LimitParameters<Name>,
  s: Float64Array,
  at: number,
  now: number,
  out: Outcome,
): void {
  const open = s[at + 2]! > 0 && now < inTicksOf(p, from, beginning(from, s, at) + from.window)
  const last = inTicksOf(p, from, s[at + 1]!)
  const same = from.window / from.perMs === p.window / p.perMs
  out.next[0] = same ? inTicksOf(p, from, beginning(from, s, at)) : Math.max(now, last)
  out.next[1] = same ? last : Math.max(now, last)
  out.next[2] = open ? Math.min(s[at + 2]!, p.quota) : 0
}

// The same functions in Lua, for Redis. They return what the functions above write.
const lua = `
local function beginning(params, cells, offset)
  return cells[offset + 3] < params.quota and cells[offset + 1] or cells[offset + 2]
end

local function step(params, cells, offset, now, cost)
  local quota = params.quota
  local open = cells[offset + 3] > 0 and now < beginning(params, cells, offset) + params.window
  local t = open and math.max(now, cells[offset + 2]) or now
  local used = open and cells[offset + 3] or 0

  local allowed = cost == 0 or cost <= quota - used
  local persist = not allowed and params.strict == 1
  local kept = allowed and used + cost or persist and math.max(used, quota) or used

  local first = open and cells[offset + 1] or t
  local last = (persist or (allowed and cost > 0)) and t or cells[offset + 2]
  local left = (kept < quota and first or last) + params.window - now

  local retry = allowed and 0 or cost > quota and math.huge or left
  local remaining, reset = math.max(0, quota - kept), kept > 0 and left or 0
  return allowed, t, retry, remaining, reset, 0, cost, persist, first, last, kept
end

local function adjust(params, cells, offset, now, chargedAt, units)
  local open = cells[offset + 3] > 0 and now < beginning(params, cells, offset) + params.window
  local persist = units > 0 or (open and chargedAt >= cells[offset + 1])
  if not open then return persist, now, now, math.max(0, units) end
  return persist, cells[offset + 1], cells[offset + 2], math.max(0, cells[offset + 3] + units)
end

local function inTicksOf(params, from, ticks)
  return params.perMs >= from.perMs and ticks * (params.perMs / from.perMs) or math.ceil(ticks / (from.perMs / params.perMs))
end

local function convert(params, from, cells, offset, now)
  local start = inTicksOf(params, from, beginning(from, cells, offset))
  local open = cells[offset + 3] > 0 and now < inTicksOf(params, from, beginning(from, cells, offset) + from.window)
  local last = inTicksOf(params, from, cells[offset + 2])
  local same = from.window / from.perMs == params.window / params.perMs
  local used = open and math.min(cells[offset + 3], params.quota) or 0
  if same then return start, last, used end
  return math.max(now, last), math.max(now, last), used
end

return { step = step, adjust = adjust, convert = convert }
`

const algorithm: Algorithm<Name> = {
  name: 'coolDown',
  options: [], // only those of every limit
  parameters: ['quota', 'window'],
  cells: [{ name: 'first', ticks: 1 }, { name: 'last', ticks: 1, newest: true }, { name: 'used' }],
  initialState: [0, 0, 0],
  deriveParameters,
  maxValue: (p) => p.quota,
  step,
  adjust,
  convert,
  lua,
}

/** Creates limits with this algorithm. From here on, `limit({ algorithm: 'coolDown', … })` works, too. */
export const coolDown: ReturnType<typeof defineAlgorithm> = defineAlgorithm(algorithm)

// `--check` runs the suite that every algorithm of the package passes.
if (process.argv.includes('--check')) {
  const { algorithmBehaviours } = await import('sluice/testing')
  const limits = [coolDown({ quota: 3, window: '10s' }), coolDown({ quota: 1, window: '7ms', strict: true })]
  for (const { name, run } of algorithmBehaviours(limits)) {
    await run()
    console.log(`it ${name}`)
  }
  process.exit()
}

const app = express()
app.use(rateLimit({ keyer: byIP, limits: coolDown({ quota: 3, window: '10m', name: 'codes' }) }))
app.post('/codes', (_request, response) => {
  response.send('a code is on its way')
})

const server = app.listen(Number(process.env.PORT ?? 0), '127.0.0.1')
await serve(server, ['POST /codes', 'POST /codes', 'POST /codes', 'POST /codes'])
