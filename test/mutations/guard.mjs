import { inFile } from './mutation.mjs'

const decisions = {
  files: ['test/stores/guard/guard.test.ts'],
  name: 'deadline|breaker|onOutage|decided without|closes',
}
const calls = { files: ['test/stores/guard/calls.test.ts'] }
const waits = { files: ['test/stores/guard/waits.test.ts'] }
const learned = { files: ['test/stores/guard/deadline.test.ts'] }
const kinds = { files: ['test/stores/guard/failures.test.ts'] }
const shares = { files: ['test/stores/guard/share.test.ts'], name: 'scales|exists|together' }
const penalties = { files: ['test/stores/guard/locks.test.ts'], name: 'penalty|backlog' }
const slots = { files: ['test/stores/guard/held-slots.test.ts'] }
const heldHere = inFile('src/stores/guard/local.ts', slots)
const heldInStore = inFile('src/stores/guard/guarded-store.ts', slots)
const log = { files: ['test/stores/guard/log.test.ts'] }
const denials = { files: ['test/stores/guard/redis-outage.test.ts'], name: 'denies most requests' }
const variants = { files: ['test/limiter/adapted.test.ts'] }

const core = inFile('src/stores/guard/guarded-store.ts', decisions)
const breaker = inFile('src/stores/guard/health.ts', decisions)
const local = inFile('src/stores/guard/local.ts', decisions)
const call = inFile('src/stores/guard/calls.ts', calls)
const deadline = inFile('src/stores/guard/deadline.ts', learned)
const failure = inFile('src/stores/guard/guarded-store.ts', kinds)
const ends = inFile('src/stores/guard/calls.ts', decisions)
const part = inFile('src/stores/guard/health.ts', kinds)

/** Small mistakes in what a guard decides and when it asks its store. */
export const guard = [
  ends('a decision that is not given up', '      this.#isRefunded = true\n      this.stop()\n', ''),
  core('a wrong request taken for an outage', "if (kind === 'wrong') return reply.failed(error)", ''),
  inFile('src/stores/guard/calls.ts', kinds)(
    'what a cache remembers taken for the health of the store',
    " && by !== 'remembered') this.#teach",
    ') this.#teach',
  ),
  core('requests that wait on after the breaker has opened', 'call.waitsFor(part)', 'call.deadline < 0'),
  inFile('src/stores/guard/backlog.ts', penalties)(
    'a change of several charges that counts once',
    'this.#charges += operation.charges.length',
    'this.#charges++',
  ),
  core('a backlog that is never sent', 'outlive(this.#backlog.send())', 'void this'),
  breaker(
    'a probe that is late and closes the breaker',
    'else if (!isLate) return this.#close()',
    'else if (took >= 0) return this.#close()',
  ),
  core('a key of the probe that is left behind', 'if (charge.charged > 0) start', 'if (charge.charged < 0) start'),
  breaker('a breaker that opens at the first failure', 'this.#failures < FAILURES && ', 'this.#failures < 1 && '),
  inFile('src/stores/guard/health.ts', waits)(
    'a store that never answers and is not in the log',
    'this.#isAway()',
    'void this',
  ),
  inFile('src/stores/guard/health.ts', waits)(
    'probes to a store that never answers, as often as at first',
    'Math.min(this.#patience * 2, LONGEST_PATIENCE)',
    'this.#patience',
  ),
  inFile('src/stores/guard/health.ts', waits)(
    'an idle client that has no time to connect',
    'if (now - this.#sentAt > IDLE) this.isConnecting = true\n',
    '',
  ),
  breaker('probes that follow one another at once', 'Math.max(1, PROBE_EVERY', 'Math.min(1, PROBE_EVERY'),
  breaker('probes after close', '    this.#isStopped = true\n    this.alarm.cancel()', '    this.#isStopped = false'),
  local('settlements of what was not counted', '    this.#own.set(charge, undefined)\n  }', '  }'),
  local('a local denial for ever because of a share', 'this.#share < 1 && charge', 'this.#share < 0 && charge'),
  call('an answer that waits and is not read', 'soon(() => due', 'void [soon].forEach(() => due'),
  call('a busy process that gives up after one turn', 'this.#turn - turn >= TURNS', 'this.#turn - turn >= 1'),
  call('a busy process that is not noticed', 'this.#lost += this.#late(now)', 'void now'),
  deadline('a deadline that follows the median', 'const PART = 0.95', 'const PART = 0.5'),
  deadline('a deadline that follows the slowest', 'const PART = 0.95', 'const PART = 1'),
  deadline('a deadline that rises without a bound', ', LONGEST_RAISED)', ', 1e9)'),
  deadline('a deadline that rises at once', 'this.#before * Math.SQRT2', '1e9'),
  deadline('a deadline that does not fall', 'if (wanted <= this.ms || ', 'if (wanted === this.ms || '),
  deadline('a busy process taken for a slow store', '(isUnsure && took * FACTOR > least)', 'took < 0'),
  deadline('twenty answers that are too few', 'const ENOUGH = 20', 'const ENOUGH = 21'),
  deadline('few answers that are trusted', 'const FIRST_FACTOR = 10', 'const FIRST_FACTOR = 2'),
  inFile('src/stores/guard/calls.ts', waits)(
    'a call that waits longer than its deadline',
    'now - sent >= deadline &&',
    'now - sent >= deadline + 10 &&',
  ),
  inFile('src/stores/guard/calls.ts', waits)(
    'a call that is given up before its deadline',
    'now - sent >= deadline &&',
    'now - sent >= deadline - 10 &&',
  ),
  inFile('src/stores/guard/guarded-store.ts', kinds)(
    'decisions without a store that answers others, and no warning',
    'this.#health.out === 0 ? whyOf(error) : undefined',
    'undefined',
  ),
  inFile('src/stores/guard/reporter.ts', log)(
    'failures in which an outage begins, reported twice',
    '      Object.assign(this.#missing, { count: 0, manyAt: Infinity })\n      const waits',
    '      const waits',
  ),
  inFile('src/stores/guard/reporter.ts', log)(
    'late decisions of all time that count as those of a minute',
    'if (now - this.#missing.since > LOG_EVERY)',
    'if (now < 0)',
  ),
  call('a burst that waits no longer than one call', ' + this.#burst.size * this.#calls.perOperation', ''),
  call('a burst that waits longer than `most`', 'return Math.min(this.#most, ', 'return Math.min(Infinity, '),
  call('a burst that never ends', '    this.burst = { size: 0 }\n', ''),
  inFile('src/stores/remote/remote.ts', { files: ['test/stores/guard/guard.test.ts'], name: 'burst' })(
    'another process whose bursts have no more time',
    'name, perOperation: PER_OPERATION, ',
    'name, ',
  ),
  inFile('src/stores/machine/index.ts', { files: ['test/stores/machine/processes.test.ts'], name: 'burst' })(
    'the process that counts has no more time for bursts',
    'name, perOperation: PER_OPERATION, ',
    'name, ',
  ),
  inFile('src/stores/rows.ts', { files: ['test/stores/guard/guard.test.ts'], name: 'burst' })(
    'a database whose bursts have no more time',
    'perOperation: PER_OPERATION, ...names',
    '...names',
  ),
  deadline('few answers that change the deadline', 'if (count < ENOUGH && this.#isKnown) return', ''),
  part('a locked row taken for an outage', "=== 'DAMAGED_ROW' ? 'busy'", "=== 'DAMAGED_ROW' ? 'away'"),
  inFile('src/stores/guard/backlog.ts', kinds)(
    'a refund of a locked key that is lost',
    '? !hasPenalty(operation)',
    '? false',
  ),
  inFile('src/stores/guard/backlog.ts', penalties)(
    'a refund that is repeated for ever',
    '|| performance.now() >= until',
    '',
  ),
  failure('an operation without its deadline', '{ ...operation, within: call.deadline }', 'operation'),
  part('each operation of a transaction is a failure', 'cause === this.#cause', 'this.#cause === this'),
  part('an answer in between that does not count', ': this.#wroteAt)', ': -Infinity)'),
  inFile('src/stores/guard/health.ts', denials)(
    'denials that hide errors',
    'else if (this.#error !== undefined) return',
    'else if (this.#failures < 0) return',
  ),
  inFile('src/stores/guard/health.ts', denials)(
    'denials that hide errors of the same call',
    'error === undefined ? this.#answeredAt : this.#wroteAt',
    'this.#answeredAt',
  ),
  part(
    'a first failure that does not open the breaker',
    'this.#failures < FAILURES && !isNew',
    'this.#failures < FAILURES',
  ),
  inFile('src/stores/guard/health.ts', log)(
    'a cause that is the latest late answer',
    'this.#error ?? this.#hooks.trouble()',
    'this.#hooks.trouble()',
  ),
  inFile('src/stores/guard/health.ts', log)(
    'a store that is not asked for its trouble',
    'this.#error ?? this.#hooks.trouble()',
    'this.#error',
  ),
  inFile('src/stores/guard/reporter.ts', log)(
    'an old cause in the line of each minute',
    "if (reason !== undefined && this.#latest?.state === 'away')",
    "if (reason === '')",
  ),
  inFile('src/stores/guard/reporter.ts', log)(
    'an outage without the error of its probe',
    'reason !== undefined && { reason }',
    "reason === '' && { reason }",
  ),
  inFile('src/stores/guard/reporter.ts', log)(
    'a part that answers again as the cause of an outage',
    '{ ...change, reason: left }',
    'change',
  ),
  inFile('src/stores/guard/reporter.ts', log)(
    'each change in the log',
    'if (this.#logged.has(change.state)) this.#missed++',
    'if (this.#missed < 0) this.#missed++',
  ),
  inFile('src/stores/guard/reporter.ts', log)(
    'changes that are never in the log',
    '(this.#missed === 0 || this.#recovered !== undefined)',
    '(this.#missed >= 0 || this.#recovered !== undefined)',
  ),
  inFile('src/stores/guard/reporter.ts', log)(
    'a timer of the log that is left behind',
    '    this.lost()\n    this.alarm.cancel()',
    '    this.lost()',
  ),
  inFile('src/stores/redis/place.ts', log)(
    'a listener that is left behind',
    '!isOver && --this.#users === 0',
    '!isOver && --this.#users < 0',
  ),
  inFile('src/stores/redis/place.ts', log)('a password in the log', '{ host: hostname, port:', '{ host: url, port:'),
  inFile('src/stores/guard/local.ts', penalties)(
    'a penalty that does not hold in an outage',
    'this.#add(this.#copy(charge), units)',
    'void this',
  ),
  inFile('src/stores/guard/backlog.ts', penalties)(
    'a penalty of a key that was reset',
    'else if (isPenalty(charge))',
    'else if (!charge)',
  ),
  inFile('src/stores/guard/backlog.ts', penalties)(
    'a refund that a reset drops',
    'else if (isPenalty(charge))',
    'else',
  ),
  inFile('src/stores/guard/share.ts', shares)(
    'a share that is rounded up',
    'Math.floor(units + 1e-9)',
    'Math.ceil(units)',
  ),
  inFile('src/limiter/ending.ts', variants)(
    'a refund that goes to a store that did not decide',
    '    const store = storeOf(charges)\n    if',
    '    const { store } = this.#sources[0]!\n    if',
  ),
  heldHere('slots that count up to the share alone', 'MOST_SLOTS / policy.limit.quota', 'this.#share'),
  heldHere('slots whose copy is not renewed', ' ?? this.#held.get(charge)', ''),
  heldInStore('slots of the store that do not count in an outage', "if (kind === 'consume') this.#hold(charges)", ''),
  heldHere('slots that count after their release', 'else if (units !== 0) this.free(charge)', ''),
  heldInStore('slots that count after they were lost', 'made.units === 0) this.#local', 'made.units < 0) this.#local'),
]
