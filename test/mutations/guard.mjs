import { inFile } from './mutation.mjs'

const decisions = {
  files: ['test/stores/guard/guard.test.ts'],
  name: 'deadline|breaker|onOutage|decided without|closes',
}
const deadlines = { files: ['test/stores/guard/deadlines.test.ts'] }
const shares = { files: ['test/stores/guard/share.test.ts'], name: 'scales|exists|together' }
const variants = { files: ['test/limiter/variants.test.ts'] }

const question = inFile('src/stores/guard/question.ts', decisions)
const core = inFile('src/stores/guard/core.ts', decisions)
const breaker = inFile('src/stores/guard/breaker.ts', decisions)
const local = inFile('src/stores/guard/local.ts', decisions)

/** Small mistakes in what a guard decides and when it asks its store. */
export const guard = [
  question('a late answer that stays charged', 'return void this.#core.undo(this.charges)', 'return'),
  question('a late answer that changes a decision', '    this.charges = copiesOf(this.charges)\n', ''),
  question('a wrong request taken for an outage', 'else this.#reject(error)', 'else this.decideWithout()'),
  core(
    'requests that wait on after the breaker has opened',
    '({ charges }) => this.health.isOutFor(charges)',
    '({ charges }) => charges.length > 99',
  ),
  core('a backlog that is never made', 'this.#catchUp().catch(', 'Promise.resolve().catch('),
  core('a probe that is late and closes the breaker', "? 'answered' : 'late'", "? 'answered' : 'answered'"),
  core('a key of the probe that is left behind', 'if (charge.charged > 0)', 'if (charge.charged < 0)'),
  breaker('a breaker that opens at the first failure', '++this.#failures < FAILURES', '++this.#failures < 1'),
  breaker('probes that follow one another at once', 'Math.max(1, PROBE_EVERY', 'Math.min(1, PROBE_EVERY'),
  breaker('probes after close', '    this.#isStopped = true\n    this.#cancel()', '    this.#isStopped = false'),
  local(
    'settlements of what was not counted',
    "this.#own.set(charge, undefined)\n    }\n    return 'open'",
    "}\n    return 'open'",
  ),
  local('a local denial for ever because of a share', 'this.#share < 1 && charge', 'this.#share < 0 && charge'),
  inFile('src/stores/guard/deadlines.ts', deadlines)(
    'calls expired before their answers are read',
    'if (setImmediate === undefined) this.#sweep()\n    else setImmediate(this.#sweep)',
    'this.#sweep(setImmediate)',
  ),
  inFile('src/stores/guard/share.ts', shares)(
    'a share that is rounded up',
    'Math.floor(units + 1e-9)',
    'Math.ceil(units)',
  ),
  inFile('src/limiter/default-limiter.ts', variants)(
    'a refund that goes to a store that did not decide',
    'charges[0]?.policy.store ?? this.#store',
    'this.#store',
  ),
]
