import { inFile } from './mutation.mjs'

const functions = {
  files: ['test/stores/redis/functions.test.ts'],
  name: 'by ioredis|a user who may not|a full server',
}
const verdicts = {
  files: ['test/stores/redis/adjust.test.ts', 'test/stores/redis/equality.test.ts'],
  name: 'settled|gcra|leakyBucket|fixedWindow',
}

const runner = inFile('src/stores/redis/queue.ts', functions)
const failure = inFile('src/stores/redis/failure.ts', functions)
const reply = inFile('src/stores/redis/request.ts', verdicts)

/** Small mistakes in how a Redis store calls its program and reads the reply. */
export const redis = [
  runner('a missing library that is never loaded', 'void this.#load(program)', 'void program'),
  runner('functions called again without the right to', 'this.#hasFunctions = false\n    else', 'void this\n    else'),
  runner(
    'a failed call that is not repeated',
    '    else return false\n    return true',
    '    else return false\n    return false',
  ),
  runner('functions never called again after a refusal', 'performance.now() + REFUSED', 'Infinity'),
  failure('a full server taken for another failure', '/\\b(OOM|READONLY', '/\\b(READONLY'),
  reply('a wait in ticks', 'numberIn(reply[at + 3]) / charge', 'numberIn(reply[at + 3]) * charge'),
  reply('the tick of a charge in microseconds', 'perMs === 1000 ? now :', 'perMs !== 1 ? 0 :'),
  reply('an infinite wait read as −1', 'return number === -1 ? Infinity : number', 'return number'),
  reply('a lock shorter than a wait', 'Math.max(charge.retryAfter, lock)', 'Math.min(charge.retryAfter, lock)'),
]
