import { inFile } from './mutation.mjs'

const bounds = { files: ['test/stores/lease-bounds.test.ts'] }
const single = { files: ['test/stores/lease.test.ts'] }
const both = { files: ['test/stores/lease.test.ts', 'test/stores/lease-bounds.test.ts'] }
const lease = inFile('src/stores/lease.ts', single)
const bounded = inFile('src/stores/lease.ts', bounds)
const either = inFile('src/stores/lease.ts', both)
const spots = inFile('src/stores/lease-spots.ts', both)
const reports = inFile('src/stores/lease-spots.ts', bounds)
const counted = inFile('src/stores/lease-spots.ts', single)
const sightings = inFile('src/stores/lease-sightings.ts', single)
const fixed = inFile('src/algorithms/fixed-window.ts', bounds)
const counter = inFile('src/algorithms/sliding-window-counter.ts', bounds)
const buckets = inFile('src/algorithms/sliding-window-buckets.ts', bounds)
const interval = inFile('src/algorithms/token-bucket-interval.ts', single)
const partFull = inFile('src/algorithms/token-bucket-initial.ts', single)
const linear = inFile('src/algorithms/gcra.ts', bounds)
const compiled = inFile('src/engine/compiled-limit.ts', bounds)
const adjust = inFile('src/engine/adjust.ts', single)
const asked = { files: ['test/limiter/lease-option.test.ts'] }
const limiter = inFile('src/limiter/default-limiter.ts', asked)
const first = inFile('src/stores/deny-cache/index.ts', asked)
const guard = inFile('src/stores/guard/guarded-store.ts', single)

/** Mistakes in leases: units that are used and were not charged, or later than their bound, or that are lost. */
export const leases = [
  // The end.
  bounded(
    'a lease that runs from its answer',
    'Math.min(sent + spot.settings.span, ...windowEnds)',
    'Math.min(this.#now + spot.settings.span, ...windowEnds)',
  ),
  bounded('a lease that no window ends', 'return sent + (until - at) * micros - (micros - 1)', 'return Infinity'),
  lease('a lease that the wall clock does not end', ' || this.#wall >= wallEnd', ''),
  lease(
    'a lease that goes on when a given clock steps back',
    '      this.#backSteps++\n      for (const batch of this.#batches) this.#end(batch)\n',
    '      this.#backSteps++\n',
  ),
  lease('a lease that a cost of 0 ends', 'if (cost === 0) return Infinity\n', ''),
  lease('an answer after `for` that is used', '!this.#isClosed && !this.#isOver(batch)', '!this.#isClosed'),
  fixed('a lease of a window that is not over with it', 'at + reset,', 'Infinity,'),
  counter(
    'a lease over two windows of the counter',
    '(Math.floor(at / window) + 1) * window',
    '(Math.floor(at / window) + 2) * window',
  ),
  buckets('a lease over two buckets', '(Math.floor(at / grain) + 1) * grain', 'Infinity'),
  interval('a lease over a refill', 'at + (reset % window || window)', 'at + reset'),
  partFull('a lease of a bucket with `initial` over a refill', "params['drain'] === undefined ? at : bucket", 'bucket'),
  // The size.
  lease(
    'a lease that ignores `share`',
    '(settings.share * tallies[i]!.said) / spot.used(i)',
    'tallies[i]!.said / spot.used(i)',
  ),
  sightings('one row for both cells of a key', 'CELLS + (hash >>> 16)', 'hash & (CELLS - 1)'),
  lease('a lease after one decision', 'if (seen < Math.min(settings.from, MOST_SEEN) || ', 'if ('),
  lease('a lease of more than was used', 'let part = 1 - 1 / Math.sqrt(asks)', 'let part = 100'),
  lease('a key that takes room for good', 'if (isUnused && ', 'if (false && '),
  lease('room for any number of leases', 'return this.#all.size < this.#maxLeases', 'return this.#all.size >= 0'),
  lease(
    'empty leases that keep their room',
    'if (this.#isFull() && !this.#endEmpty(spot)) return',
    'if (this.#isFull()) return',
  ),
  lease(
    'a request for a lease that is under way for good',
    'if (isLate) this.#endAsk(spot)\n    return !isLate',
    'return true',
  ),
  // What is spent.
  spots(
    'a lease that is spent without a count',
    'if ((this.left[i]! -= charge.cost) <=',
    'if (this.left[i]! - charge.cost <=',
  ),
  spots(
    'a lease that has less than the cost',
    'if (this.left[i]! < charges[i]!.cost) return false',
    'if (this.left[i]! < 0) return false',
  ),
  spots(
    'a decision with the time of its use',
    'charge.markCharged(own.at, charge.cost',
    'charge.markCharged(now, charge.cost',
  ),
  lease(
    'a part of a lease that a shadow limit has denied',
    'charges.every(({ cost, charged }) => cost === 0 || charged > 0)',
    'charges.length > 0',
  ),
  bounded('a limit that must not be leased', '!policy.compiled.leasable || ', ''),
  compiled('a limit with `exact` that is leased', ' && data.exact !== true', ''),
  compiled('a limit with `block` that is leased', ' && block === 0 && data.exact', ' && data.exact'),
  compiled('a strict limit that is leased', 'this.leasable = !this.strict && ', 'this.leasable = '),
  linear('a lease of a queue with delays', 'params.queue === 1 ? at : Infinity', 'Infinity'),
  // What ends it.
  either('a lease that a change does not end', '    this.#dropAll(places)\n    return start(', '    return start('),
  either('a lease that was asked for before a change', '    spot.epoch++\n', ''),
  lease('a changed limit that ends no lease', '    this.#endChanged(charges)\n', ''),
  lease('a penalty that ends no lease', 'if (penalized.length > 0) return', 'if (penalized.length < 0) return'),
  lease('a second transaction that is leased', '!spot.isOneTransaction || ', ''),
  lease('two limiters of one name taken for one', 'return `${limiter}\\0${key}`', 'return key'),
  lease(
    'a key that is cold and leased for a hot one beside it',
    'see(name, this.#longest, now)',
    'see(first!.key, this.#longest, now)',
  ),
  spots('a cost of 0 that makes a lease low', '(cost > 0 ? LOW * cost : -1)', 'LOW * cost'),
  lease(
    'a key without requests that is kept for the longest lease',
    '> spot.settings.span || now <',
    '> this.#longest || now <',
  ),
  lease(
    'all used-up leases kept',
    'for (const old of spot.batches.slice(0, -MOST_EMPTY))',
    'for (const old of spot.batches.slice(0, 0))',
  ),
  lease(
    '`from` above the count of a cell',
    'if (seen < Math.min(settings.from, MOST_SEEN)',
    'if (seen < settings.from',
  ),
  lease(
    'units of the process that count as used',
    'if (charge.lockedFor === 0) charge.remaining =',
    'if (charge.lockedFor < 0) charge.remaining =',
  ),
  // What is reported.
  spots('a use that nothing reports', 'tallies[i]!.hold(-charge.cost)', ''),
  spots(
    'a settlement beyond the limit that hides a lease',
    'return Math.max(0, this.said) + this.#held',
    'return Math.max(0, this.said + this.#held)',
  ),
  reports('an older answer taken for the newest', 'if (request > this.#latest) {', 'if (request > 0) {'),
  reports('units on their way back that nobody counts', 'remaining + sent', 'remaining'),
  counted('units that an answer includes counted again', 'each.request > request', 'each.request > 0'),
  lease(
    'a peek that counts own leases as used',
    'return this.#ask(operation, reply)',
    'return start(this.#inner, operation, reply)',
  ),
  lease('a late timer whose units are reported', 'else if (now >= this.#sweepAt) this.#sweep()', ''),
  lease(
    'units in full after the end of their window',
    'this.#now + spot.settings.span < batch.windowEnds[i]!',
    'this.#now < Infinity',
  ),
  lease(
    'a denial for units that the process holds',
    'spot !== undefined && this.#givesWay(spot, charges)',
    'spot === null',
  ),
  lease('a lease that is larger than `share` by then', 'else if (part < 1) this.#giveBack(batch, part)', ''),
  lease('leases over a slow network', 'if (!isSlow) this.#consider(spot)', 'this.#consider(spot)'),
  guard('a settlement that no lease finds', 'if (isOut && more === 0', 'if (more === 0'),
  // What is given back.
  either('units that are not given back', '      units.push(refund)\n', '      units.push(0)\n'),
  either('a refund of all units of a lease', 'const left = batch.left[i]!', 'const left = batch.charges[i]!.cost'),
  either(
    'a refund that finds no lease',
    'charged > 0 && at === batch.charges[i]!.at',
    'charged > 0 && at !== batch.charges[i]!.at',
  ),
  either('a settlement of more than the lease has', ' && units[i]! <= batch.left[i]! * batch.weights[i]!', ''),
  adjust(
    'a refund that gives nothing back',
    'return outcome.persist && (outcome.edit.takeCost > 0 || unchanged.some((cell, i) => cell !== outcome.next[i]))',
    'return true',
  ),
  lease('a timer that keeps to a longer lease', ' && at >= this.#sweepAt', ''),
  lease(
    'a lease that is asked for during `close`',
    'while (this.#underway.size > 0) await',
    'if (this.#underway.size < 0) await',
  ),
  lease('a store in a cache', ' && !denyCaches.has(store)', ''),
  guard(
    'a lease that is spent during an outage',
    'this.#health.out === 0 && inner.recall!(charges)',
    'inner.recall!(charges)',
  ),
  first(
    'a denial that hides a lease from a wrapper',
    "if (operation.kind === 'consume') this.#inner.recall?.(operation.charges)",
    '',
  ),
  limiter('a decision that is not leased before the store is asked', 'store.recall?.(charges)', 'charges.length < 0'),
  limiter('a peek that takes leased units', "if (mode === 'consume' && store.recall", 'if (store.recall'),
  lease('unused keys that are never looked at again', '        this.#hand = this.#all.values()\n', ''),
  lease(
    'unused keys that are never dropped',
    '!this.#isAsking(spot)) this.#remove(spot)',
    '!this.#isAsking(spot)) continue',
  ),
]
