// The published figure: a window of two counters that counts every request, against the exact number in the last window.
import { finish, job } from '../lib/worker.mjs'
import { exactWindow } from './exact-window.mjs'
import { BATCH, SHAPE, traffic } from './traffic.mjs'

const { quota, seconds, requests, seed } = job
const window = seconds * 1e6

/** The requests of each source in the current and in the previous window of the clock. */
function twoCounters() {
  const [slot, current, previous] = [Float64Array, Float64Array, Float64Array].map((Of) => new Of(SHAPE.sources))
  return function estimate(source, time) {
    const now = Math.floor(time / window)
    const passed = now - slot[source]
    if (passed > 0) previous[source] = passed === 1 ? current[source] : 0
    if (passed > 0) current[source] = 0
    slot[source] = now
    current[source]++
    return previous[source] * (1 - (time % window) / window) + current[source]
  }
}

function compare() {
  const estimate = twoCounters()
  const exact = exactWindow(SHAPE.sources, window)
  const fill = traffic(seed)
  const overLimit = new Uint8Array(SHAPE.sources)
  const caught = new Uint8Array(SHAPE.sources)
  const limitedBelow = new Uint8Array(SHAPE.sources)
  const sum = { wrong: 0, tooStrict: 0, tooLenient: 0, difference: 0, above: 0 }
  for (let left = requests; left > 0; left -= BATCH) {
    const size = Math.min(left, BATCH)
    const [times, sources] = [new Float64Array(size), new Uint32Array(size)]
    fill(times, sources)
    for (let i = 0; i < size; i++) {
      const [time, source] = [times[i], sources[i]]
      exact.add(source, time)
      const [real, guess] = [exact.count(source, time), estimate(source, time)]
      const [isOver, isLimited] = [real > quota, guess > quota]
      if (isOver) overLimit[source] = 1
      if (isOver && isLimited) caught[source] = 1
      if (isLimited && !isOver) limitedBelow[source] = 1
      if (isLimited && !isOver) sum.tooStrict++
      if (isOver && !isLimited) sum.tooLenient++
      if (isOver) sum.above++
      sum.difference += Math.abs(guess - real) / real
    }
  }
  const missed = overLimit.reduce((count, over, source) => count + (over === 1 && caught[source] === 0 ? 1 : 0), 0)
  const total = (marks) => marks.reduce((count, mark) => count + mark, 0)
  return {
    above: sum.above / requests,
    tooStrict: sum.tooStrict / requests,
    tooLenient: sum.tooLenient / requests,
    difference: sum.difference / requests,
    sourcesOver: total(overLimit),
    sourcesMissed: missed,
    sourcesLimitedBelow: limitedBelow.reduce(
      (n, mark, source) => n + (mark === 1 && overLimit[source] === 0 ? 1 : 0),
      0,
    ),
  }
}

finish(compare())
