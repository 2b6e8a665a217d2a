// Keeps what was admitted, and compares it with what a perfect limiter admits.
import { GENERATION, partOf } from './limiters.mjs'

/** Keys may still be answered for so many milliseconds after their generation. */
const GRACE = 1000
/** Rates are checked over so many windows of a second. */
const WINDOWS = [1, 2, 5]

/**
 * What happened to the server and to the quota of the `changing` limiter, in epoch milliseconds.
 * @typedef {{ losses: number[], changes: { at: number, quota: number }[] }} History `losses`: when the server lost all states
 */

/** What one source has admitted to one key. The source is `'redis'`, or the number of a process that decided without it. */
export class Ledger {
  #accounts = new Map()

  /** @param {{ limiter: string, key: string, source: string, admitted: number, returned: number, events: number[][] }} entry */
  add({ limiter, key, source, admitted, returned, events }) {
    const id = JSON.stringify([limiter, key, source])
    const account = this.#accounts.get(id) ?? { limiter, key, source, admitted: 0, returned: 0, events: [] }
    account.admitted += admitted
    account.returned += returned
    account.events.push(...events)
    this.#accounts.set(id, account)
  }

  /**
   * Compares every account with its allowance.
   * @param {readonly import('./limiters.mjs').Spec[]} specs
   * @param {History} history
   */
  check(specs, history) {
    const byName = new Map(specs.map((spec) => [spec.name, spec]))
    const problems = []
    const used = new Map()
    for (const account of this.#accounts.values()) {
      const { limiter, key, source } = account
      const check = byName.get(limiter).kind === 'rate' ? checkRate : checkTotal
      for (const { admitted, allowance, over } of check(byName.get(limiter), account, history)) {
        const place = `${limiter}, ${source === 'redis' ? 'Redis' : 'without Redis'}`
        const before = used.get(place) ?? { keys: 0, most: 0 }
        used.set(place, { keys: before.keys + 1, most: Math.max(before.most, admitted / allowance) })
        if (admitted > allowance)
          problems.push(`${limiter}, key ${key}, ${source}: admitted ${admitted} ${over}, allowed are ${allowance}`)
      }
    }
    return { problems, used }
  }
}

/** Units to a key that is used for one generation. A server that lost all states may admit all of them again. */
function checkTotal(spec, { key, source, admitted, returned }, { losses, changes }) {
  const from = Number(key.split('-')[0]) * GENERATION
  const until = from + GENERATION + GRACE
  const lives = 1 + losses.filter((at) => at > from && at < until).length
  const units = spec.kind === 'fixed' ? [spec.units] : quotasIn(changes, from, until)
  const allowance = source === 'redis' ? lives * (total(units) + returned) : total(units.map(partOf)) + returned
  return [{ admitted, allowance, over: 'in all' }]
}

/** The quotas in force in a time, the first one included. */
function quotasIn(changes, from, until) {
  const first = changes.findLastIndex(({ at }) => at <= from)
  return changes.filter(({ at }, i) => i >= first && at < until).map(({ quota }) => quota)
}

/** A smaller quota keeps at most itself of what was used, so that each later increase admits the difference. */
function total(quotas) {
  return quotas.reduce((sum, quota, i) => sum + Math.max(0, quota - (quotas[i - 1] ?? 0)), 0)
}

/** Units to a key in any time of some windows. A decision was made at some moment between its request and its answer. */
function checkRate(spec, account, history) {
  return WINDOWS.map((windows) => worstOf(spec, windows, account, history))
}

/** The time of so many windows in which most of the allowance was admitted. */
function worstOf(spec, windows, { source, events }, { losses }) {
  const sorted = events.toSorted(([, one], [, other]) => one - other)
  const over = `within ${windows} s`
  const once = spec.most(windows, source === 'redis' ? (units) => units : partOf)
  let worst = { admitted: 0, allowance: once, over }
  for (const [i, [, end]] of sorted.entries()) {
    const start = end - windows * 1000
    const lives = source === 'redis' ? 1 + losses.filter((at) => at > start && at < end).length : 1
    const next = { admitted: sumSince(sorted, i, start), allowance: lives * once, over }
    if (next.admitted / next.allowance > worst.admitted / worst.allowance) worst = next
  }
  return worst
}

/** The units of the events up to the last one that were asked for after `start`. */
function sumSince(events, last, start) {
  let sum = 0
  for (let i = last; i >= 0 && events[i][1] > start; i--) if (events[i][0] > start) sum += events[i][2]
  return sum
}
