// One algorithm under the whole traffic, compared with the exact sliding log.
import { entry } from '../lib/entry.mjs'
import { finish, job } from '../lib/worker.mjs'
import { exactWindow } from './exact-window.mjs'
import { limiterOf, QUOTA, WINDOW_MS } from './subjects.mjs'
import { BATCH, SHAPE, traffic } from './traffic.mjs'

const { name, root, requests, seed } = job
const sluice = await entry(root, 'sluice')

/** Compares decisions with the log that decides by itself, and with the requests that the algorithm itself admitted. */
function comparison() {
  const log = exactWindow(SHAPE.sources, WINDOW_MS * 1000)
  const own = exactWindow(SHAPE.sources, WINDOW_MS * 1000)
  const result = { denied: 0, deniedByLog: 0, tooStrict: 0, tooLenient: 0, ownStrict: 0, ownLenient: 0, worst: 0 }
  function compare(time, source, allowed) {
    const logAllows = log.count(source, time) < QUOTA
    const fits = own.count(source, time) < QUOTA
    if (logAllows) log.add(source, time)
    else result.deniedByLog++
    if (allowed) {
      own.add(source, time)
      result.worst = Math.max(result.worst, own.count(source, time))
    } else result.denied++
    if (allowed && !logAllows) result.tooLenient++
    if (!allowed && logAllows) result.tooStrict++
    if (allowed && !fits) result.ownLenient++
    if (!allowed && fits) result.ownStrict++
  }
  return { compare, result }
}

function measureDecisions() {
  const clock = { ms: 0 }
  const limiter = limiterOf(sluice, name, clock)
  const fill = traffic(seed)
  const { compare, result } = comparison()
  for (let left = requests; left > 0; left -= BATCH) {
    const size = Math.min(left, BATCH)
    const [times, sources] = [new Float64Array(size), new Uint32Array(size)]
    fill(times, sources)
    for (let i = 0; i < size; i++) {
      clock.ms = times[i] / 1000
      compare(times[i], sources[i], limiter.consume(sources[i]).allowed)
    }
  }
  return result
}

finish(measureDecisions())
