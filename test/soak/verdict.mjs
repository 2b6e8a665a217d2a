import { DEADLINE } from './limiters.mjs'

const SLACK = 10
/** A heap may grow by this share and these bytes. */
const GROWTH = 1.1
const GROWTH_BYTES = 2e6
/** Milliseconds until Redis is asked again: a second, and another one where the machine is busy. */
const BACK = 2000
/** The share of the allowance that some key must have used. With less, the load was too small to show anything. */
const USED = 0.5

/** What a run has shown to be wrong: a list of sentences, empty if all is well. */
export function problemsOf({ fleet, admitted, heaps, recoveries, problems }) {
  return [
    ...problems,
    ...admitted.problems,
    ...idle(admitted.used),
    ...late(fleet.late),
    ...grown(heaps),
    ...slowToReturn(recoveries, fleet.longestLag),
    ...fleet.errors.map((error) => `an error: ${error}`),
    ...[...fleet.warnings]
      .filter((code) => !['SLUICE_OUTAGE', 'SLUICE_RECOVERY', 'SLUICE_LOCAL'].includes(code))
      .map((code) => `a warning: ${code}`),
  ].slice(0, 50)
}

/** Limits of which no key has used half of its allowance. */
export function idle(used) {
  return [...used].filter(([, { most }]) => most < USED).map(([place]) => `${place}: the load did not reach the limit`)
}

/** Decisions that were late by more than the time for which their process did not run. */
export function late(decisions) {
  return decisions
    .filter(({ ms, lag }) => ms - lag > DEADLINE + SLACK)
    .map(
      ({ ms, lag }) => `a decision took ${ms.toFixed(1)} ms, and the event loop was late by only ${lag.toFixed(1)} ms`,
    )
}

/** Processes whose heap, after a quarter of the time, is larger in the whole last third than ever in the first one. */
export function grown(heaps) {
  const [first = []] = heaps
  return first.flatMap((_, i) => {
    const warm = heaps.slice(Math.ceil(heaps.length / 4)).map((each) => each[i])
    const third = Math.floor(warm.length / 3)
    if (third === 0) return []
    const [before, after] = [Math.max(...warm.slice(0, third)), Math.min(...warm.slice(-third))]
    const isFlat = after <= before * GROWTH + GROWTH_BYTES
    return isFlat ? [] : [`the heap of a process grew from ${megabytes(before)} to ${megabytes(after)}`]
  })
}

function slowToReturn(recoveries, lag) {
  return recoveries
    .filter(({ ms }) => ms > BACK + lag)
    .map(({ name, ms }) => `after ${name}: Redis was asked again after ${ms} ms`)
}

export function megabytes(bytes) {
  return `${(bytes / 1e6).toFixed(1)} MB`
}
