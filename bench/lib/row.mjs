import { ratios, summary } from './statistics.mjs'

/** A row is slower when the other build was better by more than this share, and by more than the spread. */
const SLOWER = 0.05
/** Fewer rounds, as in a quick run, say nothing about the spread. */
const LEAST_ROUNDS = 3

/**
 * One figure of several subjects.
 * @typedef {{ group: string, title: string, unit: string, values: Record<string, Measured>, ratios: Record<string, Summary>,
 *   budgets: Budget[], slower: boolean }} Row
 * @typedef {{ median: number, spread: number }} Summary
 * @typedef {Summary & { samples: number[] }} Measured
 * @typedef {Summary & { text: string, verdict: 'met' | 'within the spread' | 'missed' }} Budget
 */

/**
 * @param {{ group: string, title: string, unit: string, better?: 'less' | 'more', values: Record<string, number[]>,
 *   over?: string[], budgets?: Budget[], mayBeSlower?: boolean }} given `over`: subjects to which ours is compared, as well
 *   as the build before
 * @returns {Row}
 */
export function row({ group, title, unit, better = 'less', values, over = [], budgets = [], mayBeSlower = false }) {
  const ours = values[oursIn(values)]
  const compared = ['before', ...over].filter((name) => ours !== undefined && values[name] !== undefined)
  const summaries = Object.fromEntries(compared.map((name) => [name, summary(ratios(ours, values[name]))]))
  const measured = Object.entries(values).map(([name, samples]) => [name, { ...summary(samples), samples }])
  const enough = ours !== undefined && ours.length >= LEAST_ROUNDS
  const slower = enough && !mayBeSlower && isSlower(summaries.before, better)
  return { group, title, unit, values: Object.fromEntries(measured), ratios: summaries, budgets, slower }
}

/** The name of our build among the subjects. */
export function oursIn(values) {
  return 'after' in values ? 'after' : 'sluice'
}

function isSlower(ratio, better) {
  if (ratio === undefined) return false
  const worse = better === 'less' ? ratio.median - 1 : 1 - ratio.median
  return worse > Math.max(SLOWER, ratio.spread)
}

/**
 * A bound for a ratio of ours to another subject, round by round; none when the other was not measured.
 * @param {Record<string, number[]>} values
 * @param {{ of?: string, over: string, atMost?: number, atLeast?: number, tolerance?: number }} bound
 * @returns {Budget[]}
 */
export function ratioBudget(values, { of = oursIn(values), over, tolerance = 0, ...bound }) {
  if (values[of] === undefined || values[over] === undefined) return []
  const factor = bound.atMost ?? bound.atLeast
  const margin = tolerance === 0 ? '' : ` (−${100 * tolerance} %)`
  const subject = of === oursIn(values) ? '' : `${of} `
  const text = `${subject}${bound.atMost === undefined ? '≥' : '≤'} ${factor} × ${over}${margin}`
  return [budget(text, ratios(values[of], values[over]), bound, tolerance)]
}

/**
 * A bound for some samples.
 * @param {{ atMost?: number, atLeast?: number }} bound
 * @returns {Budget}
 */
export function budget(text, samples, { atMost = Infinity, atLeast = -Infinity }, tolerance = 0) {
  const { median, spread } = summary(samples)
  const holds = (value) => value <= atMost * (1 + tolerance) && value >= atLeast * (1 - tolerance)
  const near = holds(median - spread) || holds(median + spread)
  return { text, median, spread, verdict: holds(median) ? 'met' : near ? 'within the spread' : 'missed' }
}

/** The budgets that are missed by more than the spread, each with its row. */
export function missedBudgets(rows) {
  return rows.flatMap((row) =>
    row.budgets.filter(({ verdict }) => verdict === 'missed').map((budget) => ({ row, budget })),
  )
}

/** The rows that are slower than in the other build. */
export function slowerRows(rows) {
  return rows.filter(({ slower }) => slower)
}
