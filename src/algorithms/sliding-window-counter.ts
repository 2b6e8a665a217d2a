import { type Algorithm, LARGEST, type Outcome, type Parameters, rescale } from '../algorithm.ts'

/**
 * `slidingWindowCounter`, the "moving window": two neighbouring windows on the clock, the older one weighted by how much of it
 * the sliding window still covers.
 *
 * State `(w, cur, prev)`: the window's number since the epoch, what it holds, what the one before it held.
 * `est = cur + ⌊prev · (window − e) / window⌋` with `e` the time since the window began. An estimate: up to twice the quota can
 * pass within a window, when it came at the end of one and the start of the next but one.
 */
type Name = 'quota' | 'window'

function step(p: Parameters<Name>, s: Float64Array, at: number, now: number, n: number, out: Outcome): void {
  const t = s[at + 1]! > 0 || s[at + 2]! > 0 ? Math.max(now, s[at]! * p.window) : now
  const w = Math.floor(t / p.window)
  const cur = w === s[at] ? s[at + 1]! : 0
  const prev = w === s[at] ? s[at + 2]! : w === s[at]! + 1 ? s[at + 1]! : 0
  const e = t - w * p.window
  const weighted = Math.floor((prev * (p.window - e)) / p.window)

  const allowed = n === 0 || n <= p.quota - cur - weighted
  const persist = !allowed && p.strict === 1
  const kept = allowed ? cur + n : persist ? Math.max(cur, p.quota - weighted) : cur

  // Until the older window weighs little enough, or else until this one has become the older and does.
  const a = p.quota - kept - n
  const later = Math.max(0, p.window - Math.floor(((p.quota - n + 1) * p.window - 1) / kept))
  const wait = a < 0 ? p.window - e + later : p.window - Math.floor(((a + 1) * p.window - 1) / prev) - e
  const retry = allowed ? 0 : n > p.quota ? Infinity : wait
  const reset = kept > 0 ? 2 * p.window - e : prev > 0 ? p.window - e : 0

  out.allowed = allowed
  out.at = t
  out.retry = retry === 0 ? 0 : retry + (t - now)
  out.remaining = Math.max(0, p.quota - kept - weighted)
  out.reset = reset === 0 ? 0 : reset + (t - now)
  out.delay = 0
  out.charged = n
  out.persist = persist
  out.next[0] = w
  out.next[1] = kept
  out.next[2] = prev
}

function adjust(
  p: Parameters<Name>,
  s: Float64Array,
  at: number,
  now: number,
  then: number,
  units: number,
  out: Outcome,
): void {
  const t = s[at + 1]! > 0 || s[at + 2]! > 0 ? Math.max(now, s[at]! * p.window) : now
  const w = Math.floor(t / p.window)
  const cur = w === s[at] ? s[at + 1]! : 0
  const prev = w === s[at] ? s[at + 2]! : w === s[at]! + 1 ? s[at + 1]! : 0

  const charged = Math.floor(then / p.window)
  const older = units < 0 && charged === w - 1
  const most = Math.floor(LARGEST / p.window)
  const held = older ? prev : charged === w ? cur : 0
  out.persist = units > 0 || held > 0
  out.next[0] = w
  out.next[1] = older ? cur : Math.min(Math.max(0, cur + units), most)
  out.next[2] = older ? Math.max(0, prev + units) : prev
}

function convert(
  p: Parameters<Name>,
  from: Parameters<Name>,
  s: Float64Array,
  at: number,
  now: number,
  out: Outcome,
): void {
  const t = Math.max(rescale(now, p, from), s[at]! * from.window)
  const w = Math.floor(t / from.window)
  const cur = w === s[at] ? s[at + 1]! : 0
  const prev = w === s[at] ? s[at + 2]! : w === s[at]! + 1 ? s[at + 1]! : 0
  const left = from.window - (t - w * from.window)
  const same = from.window / from.perMs === p.window / p.perMs

  // The same grid: each window is capped, the older one so that both together are. Another: the estimate moves into one.
  const used = Math.min(same ? cur : cur + Math.ceil((prev * left) / from.window), p.quota)
  const time = Math.max(now, -rescale(-w * from.window, from, p))
  const into = Math.floor(time / p.window)
  const fits = Math.floor(((p.quota - used + 1) * p.window - 1) / (p.window - (time - into * p.window)))
  out.next[0] = cur > 0 || prev > 0 ? into : 0
  out.next[1] = used
  out.next[2] = same ? Math.min(prev, fits) : 0
}

/** Saturated, the older window may be another's: whoever was charged may have filled the newer one. */
function share(p: Parameters<Name>, out: Outcome): void {
  if (out.allowed) return
  if (out.next[1] === 0) out.reset += p.window
  out.next[1] = Math.max(out.next[1]!, p.quota)
}

const lua = `
local function step(p, s, now, n, out)
  local t = (s[2] > 0 or s[3] > 0) and max(now, s[1] * p.window) or now
  local w = floor(t / p.window)
  local cur = w == s[1] and s[2] or 0
  local prev = w == s[1] and s[3] or w == s[1] + 1 and s[2] or 0
  local e = t - w * p.window
  local weighted = floor((prev * (p.window - e)) / p.window)

  local allowed = n == 0 or n <= p.quota - cur - weighted
  local persist = not allowed and p.strict == 1
  local kept = allowed and cur + n or persist and max(cur, p.quota - weighted) or cur

  local a = p.quota - kept - n
  local later = max(0, p.window - floor(((p.quota - n + 1) * p.window - 1) / kept))
  local wait = a < 0 and p.window - e + later or p.window - floor(((a + 1) * p.window - 1) / prev) - e
  local retry = allowed and 0 or n > p.quota and huge or wait
  local reset = kept > 0 and 2 * p.window - e or prev > 0 and p.window - e or 0

  out.allowed = allowed
  out.at = t
  out.retry = retry == 0 and 0 or retry + (t - now)
  out.remaining = max(0, p.quota - kept - weighted)
  out.reset = reset == 0 and 0 or reset + (t - now)
  out.delay = 0
  out.charged = n
  out.persist = persist
  out.next[1] = w
  out.next[2] = kept
  out.next[3] = prev
end

local function adjust(p, s, now, before, units, out)
  local t = (s[2] > 0 or s[3] > 0) and max(now, s[1] * p.window) or now
  local w = floor(t / p.window)
  local cur = w == s[1] and s[2] or 0
  local prev = w == s[1] and s[3] or w == s[1] + 1 and s[2] or 0

  local charged = floor(before / p.window)
  local older = units < 0 and charged == w - 1
  local most = floor(LARGEST / p.window)
  local held = older and prev or charged == w and cur or 0
  out.persist = units > 0 or held > 0
  out.next[1] = w
  out.next[2] = older and cur or min(max(0, cur + units), most)
  out.next[3] = older and max(0, prev + units) or prev
end

local function convert(p, from, s, now, out)
  local t = max(rescale(now, p, from), s[1] * from.window)
  local w = floor(t / from.window)
  local cur = w == s[1] and s[2] or 0
  local prev = w == s[1] and s[3] or w == s[1] + 1 and s[2] or 0
  local left = from.window - (t - w * from.window)
  local same = from.window / from.perMs == p.window / p.perMs

  local used = min(same and cur or cur + ceil((prev * left) / from.window), p.quota)
  local time = max(now, -rescale(-w * from.window, from, p))
  local into = floor(time / p.window)
  local fits = floor(((p.quota - used + 1) * p.window - 1) / (p.window - (time - into * p.window)))
  out.next[1] = (cur > 0 or prev > 0) and into or 0
  out.next[2] = used
  out.next[3] = same and min(prev, fits) or 0
end

return { step = step, adjust = adjust, convert = convert }
`

/** Sliding window counter: two windows on the clock, the older one weighted. */
export const slidingWindowCounter: Algorithm<Name> = {
  name: 'slidingWindowCounter',
  options: [],
  parameters: ['quota', 'window'],
  blank: [0, 0, 0],
  plan: (input) => ({ quota: input.quota, window: input.window }),
  largest: (p) => (p.quota + 1) * p.window,
  step,
  adjust,
  convert,
  share,
  lua,
}
