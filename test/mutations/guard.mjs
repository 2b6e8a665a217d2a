import { inFile } from './mutation.mjs'

const decisions = {
  files: ['test/stores/guard/guard.test.ts'],
  name: 'deadline|breaker|onOutage|decided without|closes',
}
const deadlines = { files: ['test/stores/guard/deadlines.test.ts'] }
const shares = { files: ['test/stores/guard/share.test.ts'], name: 'scales|exists|together' }
const busy = { files: ['test/stores/guard/busy.test.ts'], name: 'does not answer' }
const penalties = { files: ['test/stores/guard/locks.test.ts'], name: 'penalty|backlog' }
const log = { files: ['test/stores/guard/log.test.ts'] }
const variants = { files: ['test/limiter/variants.test.ts'] }

const core = inFile('src/stores/guard/guarded-store.ts', decisions)
const breaker = inFile('src/stores/guard/health.ts', decisions)
const local = inFile('src/stores/guard/local.ts', decisions)
const deadline = inFile('src/stores/guard/deadlines.ts', deadlines)

/** Small mistakes in what a guard decides and when it asks its store. */
export const guard = [
  core('a decision that is not given up', 'if (!this.#isGivenUp) this.#giveUp?.()', ''),
  core('a wrong request taken for an outage', 'else this.#reply.failed(error)', 'else this.decideWithout()'),
  core(
    'what a cache remembers taken for the health of the store',
    "if (by !== 'remembered') health",
    'if (by === undefined || by !== undefined) health',
  ),
  core(
    'requests that wait on after the breaker has opened',
    '({ charges }) => this.health.isOutFor(charges)',
    '({ charges }) => charges.length > 99',
  ),
  core('a backlog that is never sent', 'this.#backlog.send()', 'Promise.resolve()'),
  core('a probe that is late and closes the breaker', "? 'answered' : 'late'", "? 'answered' : 'answered'"),
  core('a key of the probe that is left behind', 'if (charge.charged > 0) ask', 'if (charge.charged < 0) ask'),
  breaker('a breaker that opens at the first failure', '++this.#failures < FAILURES', '++this.#failures < 1'),
  breaker('probes that follow one another at once', 'Math.max(1, PROBE_EVERY', 'Math.min(1, PROBE_EVERY'),
  breaker('probes after close', '    this.#isStopped = true\n    this.#cancel()', '    this.#isStopped = false'),
  local(
    'settlements of what was not counted',
    "this.#own.set(charge, undefined)\n    }\n    return 'open'",
    "}\n    return 'open'",
  ),
  local('a local denial for ever because of a share', 'this.#share < 1 && charge', 'this.#share < 0 && charge'),
  deadline('time in which the process did not run counted', 'this.#lose(late, now)', 'void late'),
  deadline(
    'a call that gets time which was lost before it came',
    'call !== undefined && call.since > now - this.#lost',
    'call !== undefined && call.since > now',
  ),
  deadline('credit without end', 'this.#lost += ms', 'this.#lost += ms + this.#wait'),
  deadline('a call that was busy not marked', 'this.#lost - call.lost >= this.#deadline', 'this.#deadline < 0'),
  inFile('src/stores/guard/health.ts', busy)(
    'late calls of a busy process that open the breaker',
    "(kind === 'busy' && !this.#isSilent())",
    "(kind === 'error' && this.#isOpen)",
  ),
  inFile('src/stores/guard/health.ts', busy)(
    'late calls of a busy process that never open the breaker',
    'now - this.#silentSince >= SILENCE',
    'now - this.#silentSince < 0',
  ),
  inFile('src/stores/guard/health.ts', log)(
    'a cause that is the latest late answer',
    'this.#hooks.opened(this.#error ?? reason)',
    'this.#hooks.opened(reason)',
  ),
  inFile('src/stores/guard/guarded-store.ts', log)(
    'a store that is not asked for its trouble',
    'this.inner.place.trouble ?? this.#late',
    'this.#late',
  ),
  inFile('src/stores/guard/reporter.ts', log)(
    'each change in the log',
    'if (!this.#logged.has(this.#latest.state)) this.#log()',
    'this.#log()',
  ),
  inFile('src/stores/guard/reporter.ts', log)(
    'changes that are never in the log',
    'if (this.#changes === 0) return',
    'if (this.#changes >= 0) return',
  ),
  inFile('src/stores/guard/reporter.ts', log)(
    'a timer of the log that is left behind',
    '  close(): void {\n    this.#cancel()',
    '  close(): void {',
  ),
  inFile('src/stores/redis/place.ts', log)(
    'a listener that is left behind',
    '!isOver && --this.#users === 0',
    '!isOver && --this.#users < 0',
  ),
  inFile('src/stores/redis/place.ts', log)('a password in the log', '{ host: hostname, port:', '{ host: url, port:'),
  inFile('src/stores/guard/guarded-store.ts', penalties)(
    'a penalty that does not hold in an outage',
    'this.local.penalize(charge, units[i]!)',
    'void this.local',
  ),
  inFile('src/stores/guard/backlog.ts', penalties)(
    'a penalty of a key that was reset',
    'if (isPenaltyOf(charge)) units[i] = 0',
    'if (isPenaltyOf(charge)) units[i]! += 0',
  ),
  inFile('src/stores/guard/backlog.ts', penalties)(
    'a refund that a reset drops',
    'isPenalty(charge) && charge.key === key',
    'charge.key === key',
  ),
  inFile('src/stores/guard/local.ts', shares)(
    'a share that is rounded up',
    'Math.floor(units + 1e-9)',
    'Math.ceil(units)',
  ),
  inFile('src/limiter/limiter.ts', variants)(
    'a refund that goes to a store that did not decide',
    'return first?.policy.store ?? store',
    'return store ?? first?.policy.store',
  ),
]
