import { inFile } from './mutation.mjs'

const tests = ['deny-cache', 'exactness', 'memory', 'races', 'twin']
const files = tests.map((file) => `test/stores/deny-cache/${file}.test.ts`)
const inCache = (file) => inFile(`src/stores/deny-cache/${file}.ts`, { files })
const changes = inCache('changes')
const denials = inCache('denials')
const store = inCache('index')

/** Small mistakes in `denyCache`. */
export const denyCache = [
  denials(
    'a denial that lasts a tick too long',
    'Math.floor(lasts * 1000) - compiled.micros',
    'Math.floor(lasts * 1000) + 1',
  ),
  denials('a lock-out that ends with the wait', 'Math.min(retryAfter, lockedFor)', 'retryAfter'),
  denials('a lock-out that is not reported', 'lockedFor > 0 ?', 'lockedFor < 0 ?'),
  denials('a strict limit that is not charged', 'if (policy.compiled.strict && cost > 0) return -Infinity', ''),
  denials('a wait that counts from the request', 'retryAt: now +', 'retryAt: now - 1 +'),
  denials('a denial that answers for any cost', "(cost === 1 ? '' : cost)", "''"),
  denials('a key that passes for several', "+ key.length + '\\0' + key", '+ key'),
  denials(
    'a denial that answers for any version',
    'if (verdicts[i]!.version !== this.#changes.versionOf(charges[i]!.policy).text) return false',
    ';',
  ),
  denials('a denial that outlasts a change', 'if (this.#changesOf(charges, verdicts) !== changes) return false', ''),
  denials('a reply that is older than a change', ' || !isCurrent) return', ') return'),
  denials(
    'a limit with block that does not lock the key',
    'return !allowed || policy.compiled.block > 0',
    'return !allowed',
  ),
  denials('a denial that outlasts maxAge', 'Math.min(sent + this.#maxAge, ...', 'Math.min(Infinity, ...'),
  denials(
    'a reserved key that stays denied',
    '!deniers.some((denier) => isSameCell(denier, charge))',
    'deniers.length === 0',
  ),
  denials('a shadow limit that denies', 'charges.filter(denies)', 'charges.filter(({ allowed }) => !allowed)'),
  changes(
    'a change under way',
    'return this.#open[cell] === 0 ? this.#counts[cell]! : NaN',
    'return this.#counts[cell]!',
  ),
  changes('a reply that ends two changes', 'if (!isOpen) return', ''),
  changes(
    'a refund that keeps the denial',
    'this.#open[cellOf(spot)]!--\n        this.count(spot)',
    'this.#open[cellOf(spot)]!--',
  ),
  changes('a limit that changes and changes back', 'if (this.#versions[cell] !== version) this.count(use)', ''),
  store(
    'a wait that is answered by an old denial',
    'if (!operation.fresh && this.#denials.answer',
    'if (this.#denials.answer',
  ),
  store('a decision of no store that is kept', 'if (by === undefined && end === undefined)', 'if (end === undefined)'),
  store(
    'a refund of a decision that was given up not noted',
    'end = this.#changes.begin(charges)',
    'end = () => undefined',
  ),
]
