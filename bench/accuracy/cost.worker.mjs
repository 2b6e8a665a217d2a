// Nanoseconds per decision under the traffic, and bytes per key. Needs --expose-gc.
import { entry } from '../lib/entry.mjs'
import { finish, job } from '../lib/worker.mjs'
import { bytesInUse } from '../memory/bytes.mjs'
import { limiterOf, QUOTA } from './subjects.mjs'
import { BATCH, traffic } from './traffic.mjs'

const { name, root, requests, seed } = job
const sluice = await entry(root, 'sluice')

/** A table of numbers doubles when it is full. With this many keys it is full. */
const KEYS = 2 ** 16

function nanoseconds() {
  const clock = { ms: 0 }
  const limiter = limiterOf(sluice, name, clock)
  const fill = traffic(seed)
  const [times, sources] = [new Float64Array(BATCH), new Uint32Array(BATCH)]
  let [milliseconds, decided] = [0, 0]
  for (; decided < requests; decided += BATCH) {
    fill(times, sources)
    const began = performance.now()
    for (let i = 0; i < BATCH; i++) {
      clock.ms = times[i] / 1000
      limiter.consume(sources[i])
    }
    milliseconds += performance.now() - began
  }
  return (milliseconds * 1e6) / decided
}

/** Bytes per key when every key has made so many requests, 0.1 s apart. */
async function bytesPerKey(used) {
  const clock = { ms: 1_767_225_600_000 }
  const before = await bytesInUse()
  const limiter = limiterOf(sluice, name, clock)
  for (let request = 0; request < used; request++) {
    clock.ms += 100
    for (let key = 0; key < KEYS; key++) limiter.consume(key)
  }
  const bytes = ((await bytesInUse()) - before) / KEYS
  limiter.peek(0)
  return bytes
}

finish({
  nanoseconds: nanoseconds(),
  bytesAfterOne: await bytesPerKey(1),
  bytesAfterQuota: await bytesPerKey(QUOTA),
})
