import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'

/** A measurement counts as disturbed when one of its processes waited for a processor for more than this share of the time. */
const DISTURBED = 0.05
const PAUSE_MS = 200
const tally = { all: 0, disturbed: 0 }

/**
 * Makes a function that repeats a measurement while other programs of the machine keep its processes waiting, and returns the
 * least disturbed one. What was measured plays no part in the choice. Where the system does not report waiting, the first
 * one counts.
 * @param {number} patienceMs how long all repetitions together may take
 * @returns {<T>(pids: number[], measure: () => Promise<T>) => Promise<T>}
 */
export function repeater(patienceMs) {
  let left = patienceMs
  return async function undisturbed(pids, measure) {
    let least = await withWaiting(pids, measure)
    while (least.share > DISTURBED && left > 0) {
      const began = performance.now()
      await pause(PAUSE_MS)
      const next = await withWaiting(pids, measure)
      if (next.share < least.share) least = next
      left -= performance.now() - began
    }
    tally.all++
    if (least.share > DISTURBED) tally.disturbed++
    return least.result
  }
}

/** How many measurements since the last call were disturbed, such as `3 of 260 measurements disturbed`, if any were made. */
export function disturbances() {
  const { all, disturbed } = tally
  Object.assign(tally, { all: 0, disturbed: 0 })
  return all === 0 ? undefined : `${disturbed} of ${all} measurements disturbed`
}

/** Measures, and adds the largest share of the time that one of the processes has waited for a processor. */
async function withWaiting(pids, measure) {
  const before = pids.map(waited)
  const began = performance.now()
  const result = await measure()
  const ms = performance.now() - began
  return { result, share: Math.max(...pids.map((pid, i) => (waited(pid) - before[i]) / ms)) }
}

/** Milliseconds that the main thread of a process has waited for a processor: the second number of `schedstat`. */
function waited(pid) {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[1]) / 1e6
  } catch {
    return 0
  }
}
