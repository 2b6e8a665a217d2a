import { median, ratios, summary } from './samples.mjs'

/**
 * A figure that may not be passed, and whether it was. `noise`: it was, but by no more than the spread.
 * @typedef {{ text: string, value: number, spread: number, limit: number, verdict: 'met' | 'noise' | 'missed' }} Budget
 */

/** What was measured is at most so much. */
export function atMost(text, limit, samples) {
  return judged(text, limit, samples, (value) => value <= limit)
}

/** What was measured is at least so much. */
export function atLeast(text, limit, samples) {
  return judged(text, limit, samples, (value) => value >= limit)
}

/** `of` costs at most `factor` times what `over` costs, in the same round. */
export function timesAtMost(of, factor, over, values) {
  return known(values, [of, over]).map(() =>
    atMost(`${of} ≤ ${factor} × ${over}`, factor, ratios(values[of], values[over])),
  )
}

/** `of` does, or costs, at least `factor` times as much as `over`, in the same round. */
export function timesAtLeast(of, factor, over, values) {
  return known(values, [of, over]).map(() =>
    atLeast(`${of} ≥ ${factor} × ${over}`, factor, ratios(values[of], values[over])),
  )
}

/** The one that does best, of those measured. */
export function best(names, values, pick = Math.min) {
  const measured = names.filter((name) => values[name] !== undefined)
  const figure = pick(...measured.map((name) => median(values[name])))
  return measured.find((name) => median(values[name]) === figure)
}

function known(values, names) {
  return names.every((name) => values[name] !== undefined) ? [true] : []
}

function judged(text, limit, samples, holds) {
  const { median: value, spread } = summary(samples)
  const near = holds(value - spread) || holds(value + spread)
  return { text, value, spread, limit, verdict: holds(value) ? 'met' : near ? 'noise' : 'missed' }
}
