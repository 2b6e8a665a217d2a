import { inFile } from './mutation.mjs'

const functions = {
  files: ['test/stores/redis/functions.test.ts'],
  name: 'by ioredis|a user who may not|a full server|too few replicas',
}
const verdicts = {
  files: ['test/stores/redis/adjust.test.ts', 'test/stores/redis/equality.test.ts'],
  name: 'settled|gcra|leakyBucket|fixedWindow',
}

const silence = { files: ['test/stores/redis/silence.test.ts'] }
const failover = { files: ['test/stores/redis/failover.test.ts'], name: 'cluster|sentinel' }
const rest = { files: ['test/stores/redis/upstash.test.ts'], name: 'by the text|sends the text' }

const runner = inFile('src/stores/redis/queue.ts', functions)
const causesOf = { files: ['test/stores/redis/causes.test.ts'] }
const causes = inFile('src/stores/redis/failure.ts', causesOf)
const text = inFile('src/stores/redis/queue.ts', rest)
const watch = inFile('src/stores/redis/silence.ts', silence)
const client = inFile('src/stores/redis/clients.ts', failover)
const failure = inFile('src/stores/redis/failure.ts', functions)
const damagedKeys = { files: ['test/stores/redis/reset.test.ts'], name: 'damaged' }
const damaged = inFile('src/stores/redis/failure.ts', damagedKeys)
const reply = inFile('src/stores/redis/request.ts', verdicts)
const faults = {
  files: ['test/stores/redis/faults.test.ts'],
  name: 'for one server|in a transaction|after ten seconds|has subscribed',
}
const keptKeys = { files: ['test/stores/redis/kept.test.ts'] }
const kept = inFile('src/stores/redis/kept.ts', keptKeys)
const foreign = inFile('src/stores/redis/queue.ts', faults)

/** Small mistakes in how a Redis store calls its program and reads the reply. */
export const redis = [
  causes('an outage without its cause', 'lost ?? message', 'message ?? lost'),
  causes('the words of ioredis about a cluster', 'lastNodeError instanceof Error ? lastNodeError : error', 'error'),
  inFile('src/stores/redis/place.ts', causesOf)(
    'no cause without a listener',
    '.stream?.errored',
    '.stream?.constructor',
  ),
  inFile('src/util/errors.ts', causesOf)('two full stops', String.raw`/\.?\n?$/`, String.raw`/\n?$/`),
  runner('a missing library that is never loaded', 'void this.#load(program)', 'void program'),
  runner('functions called again without the right to', 'this.#hasFunctions = false\n    else', 'void this\n    else'),
  runner(
    'a failed call that is not repeated',
    '    else return false\n    return true',
    '    else return false\n    return false',
  ),
  runner('functions never called again after a refusal', 'performance.now() + REFUSED', 'Infinity'),
  foreign('a cluster that a client for one server does not notice', 'this.#inCluster = true', 'void this'),
  foreign('refused calls that are not sent again', 'this.enqueue(pending)', 'pending.reject(error)'),
  foreign('an answer of MULTI that is read', 'if (Array.isArray(reply))', 'if (reply)'),
  inFile('src/stores/redis/failure.ts', faults)(
    'another server of a cluster taken for an outage',
    'SUBSCRIBED, MOVED]',
    'SUBSCRIBED]',
  ),
  inFile('src/stores/redis/failure.ts', faults)(
    'a client that has subscribed taken for an outage',
    'SUBSCRIBED, MOVED]',
    'MOVED]',
  ),
  inFile('src/stores/redis/index.ts', faults)(
    'a check that waits without an end',
    'await answered(CHECKING, sent)',
    'await answered(CHECKING * 1000, sent)',
  ),
  kept('a key that has ended taken for a lost one', 'now < this.#until - this.#every * SLACK', 'this.#until > 0'),
  kept('a lost key that is not reported', 'now < this.#until - this.#every * SLACK', 'this.#until < 0'),
  kept('a warning for each lost key', 'this.due += this.#every * MOST', 'void this'),
  kept('a key for states that last for a second', 'if (this.#ms < this.#every * LEAST) return', ''),
  kept('a check in each test run', 'isTestRun() ? Infinity : performance.now() + every', 'performance.now() + every'),
  inFile('src/stores/redis/queue.ts', keptKeys)(
    'a check at each call',
    'performance.now() >= this.#connection.kept.due',
    'performance.now() >= 0',
  ),
  text('a text that is sent each time', 'this.#sentText = sha', 'void sha'),
  text('a first call by the hash', 'this.#client.sendsText && this.#sentText !== sha', 'false'),
  watch('an answer that does not end a silence', 'if (isAnswered) server.looks = 0', 'void isAnswered'),
  watch('a failure of the client taken for an answer', 'if (isAnswered) server.looks = 0', 'server.looks = 0'),
  watch('a search for a server that is not asked', 'server.isAsked = false', 'void server.isAsked'),
  watch('searches without a bound', 'this.#searches === SEARCHES', 'this.#searches < 0'),
  watch('a search for a server that was replaced', ' && this.#serverOf(server.key) === name', ''),
  client('a sentinel that is not asked again', 'client.disconnect?.(true)', 'void client'),
  client('a redirect that is not provoked', "code !== 'MOVED' || server === silent", "code === 'MOVED'"),
  damaged('a damaged key taken for a wrong request', "if (DAMAGED.test(message)) return 'DAMAGED_ROW'", ''),
  damaged(
    'a damaged log taken for a fault of its algorithm',
    'fault === undefined || DAMAGED.test(fault)',
    'fault === undefined',
  ),
  inFile('src/stores/redis/lua/call.lua', damagedKeys, 'Lua')(
    'parameters that are missing in a header',
    "if #words == 0 then error({ err = 'DAMAGED_ROW' }) end",
    '',
  ),
  failure('a full server taken for another failure', '/\\b(OOM|READONLY', '/\\b(READONLY'),
  failure('too few replicas taken for another failure', '|NOREPLICAS|NotEnoughReplicas', ''),
  reply('a wait in ticks', 'numberIn(reply[at + 3]) / charge', 'numberIn(reply[at + 3]) * charge'),
  reply('the tick of a charge in microseconds', 'ticks(charge.policy.compiled, now)', '0'),
  reply('an infinite wait read as −1', 'return number === -1 ? Infinity : number', 'return number'),
  reply('a lock shorter than a wait', 'Math.max(charge.retryAfter, lock)', 'Math.min(charge.retryAfter, lock)'),
]
