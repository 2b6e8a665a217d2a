import { inFile } from './mutation.mjs'

const inCache = (file) =>
  inFile(`src/stores/deny-cache/${file}.ts`, {
    files: ['test/stores/deny-cache'],
    exclude: 'test/stores/deny-cache/{suite,redis}.test.ts',
  })
const verdict = inCache('denials')
const table = inCache('denials')
const tables = inCache('denials')
const changes = inCache('denials')
const denials = inCache('denials')
const store = inCache('index')

/** Small mistakes in `denyCache`. */
export const denyCache = [
  verdict(
    'a denial that lasts a tick too long',
    'Math.floor(lasts * 1000) - compiled.micros',
    'Math.floor(lasts * 1000) + 1',
  ),
  verdict('a lock-out that ends with the wait', 'Math.min(retryAfter, lockedFor)', 'retryAfter'),
  verdict('a lock-out that is not reported', 'charge.lockedFor > 0 ?', 'charge.lockedFor < 0 ?'),
  verdict('a strict limit that is not charged', 'if (policy.compiled.strict && cost > 0) return -Infinity', ''),
  verdict('a wait that counts from the request', 'this.retryAt = now +', 'this.retryAt = until - until + now - 1 +'),
  table('a denial that answers for any cost', 'if (verdict.cost === cost) return', 'if (verdict.cost <= cost) return'),
  table(
    'a denial that answers for any version',
    'known?.version === version ? known.verdicts',
    'known ? known.verdicts',
  ),
  tables(
    'a reply of an earlier version that is forgotten',
    'if (!isTracked && table.isMixed) this.#changes.begin(versionsOf(charge))',
    'if (!isTracked && table.isMixed) continue',
  ),
  tables('requests under way that are forgotten', 'table.untracked === 0 &&', ''),
  changes(
    'a second change under way that is forgotten',
    'if (!note.isOpen || note.inFlight > 0) return',
    'if (!note.isOpen) return',
  ),
  changes('a reply that is older than a change', '!note.isOpen && note.endedAt <= sent', '!note.isOpen'),
  changes('a change under way', '!note.isOpen && note.endedAt <= sent', 'note.endedAt <= sent'),
  changes('notes that are missing', 'if (sent < this.#since) return false', ''),
  denials('a denial that outlasts maxAge', 'Math.min(given, sent + this.#maxAge)', 'given'),
  denials('a refund that keeps the denial', 'if (units < 0) this.#dropDenials(charge)', 'if (units < 0) return'),
  denials('a reserved key that stays denied', 'if (!deniers.has(keyOf(charge))) this.#release(charge)', ''),
  denials('a shadow limit that denies', '!verdict.allowed && charge.policy.compiled.enforced', '!verdict.allowed'),
  store(
    'a wait that is answered by an old denial',
    'if (!operation.fresh && this.#denials.answer',
    'if (this.#denials.answer',
  ),
  store(
    'a decision of no store that is kept',
    'if (by === undefined && !this.#isGivenUp) this.#denials.learn',
    'this.#denials.learn',
  ),
  store(
    'a refund of a decision that was given up not noted',
    'for (const charge of this.#asked.charges) this.#denials.beginAdjusting(charge, -charge.cost)',
    '',
  ),
]
