import type { Algorithm, LimitParameters, ParameterInput } from './algorithm.ts'
import { type Entries, EntryArray, writeEdit } from './entries.ts'
import { LARGEST, rescale } from './arithmetic.ts'
import { refuse } from '../util/validate.ts'

/**
 * `slidingWindowLog`, and `slidingWindowBuckets` with less exact times: every admitted request is remembered until it is outside the
 * window, so no window ever contains more than `quota`.
 *
 * Time is counted in grains: `i = ⌊t / grain⌋`. An entry made in grain `i` counts while the time is before
 * `(i + life) · grain`. For the log, a grain is a tick and `life` is the window. For buckets, a grain is a bucket and `life` is the
 * number of buckets plus one. State `(sum, newest)`: the cost of all entries, and the grain of the newest entry. Entries
 * `(grain, cost)`, oldest first. Entries that no longer count stay in the list and in `sum` until the next write.
 */
export type Name = 'quota' | 'grain' | 'life'

/** The largest quota of a log, and the largest number of buckets. It limits the time of a decision and the memory of a key. */
export const MOST_ENTRIES = 100_000

const advanced = { index: 0.5, over: 0.5 }

/** Returns the grain at `now`, and the cost of the entries that no longer count. The grain is never before the newest entry. */
export function advance(
  { grain, life }: LimitParameters<Name>,
  cells: Float64Array,
  offset: number,
  now: number,
  entries: Entries,
): typeof advanced {
  const sum = cells[offset]!
  const newest = sum > 0 ? cells[offset + 1]! : -Infinity
  const index = Math.max(Math.floor(now / grain), newest)
  advanced.index = index
  advanced.over = newest + life <= index ? sum : entries.costUntil(index - life)
  return advanced
}

const step: Algorithm<Name>['step'] = (params, cells, offset, now, cost, out, entries) => {
  const { quota, grain, life } = params
  const { index, over } = advance(params, cells, offset, now, entries)
  const sum = cells[offset]! - over

  const allowed = cost === 0 || cost <= quota - sum
  const persist = !allowed && params.strict === 1
  const pushed = allowed ? cost : persist ? Math.min(cost, quota) : 0
  const kept = allowed ? sum + cost : persist ? Math.max(sum, quota) : sum
  // A denied request that is charged fills the log. The oldest cost is dropped.
  const drop = over + sum + pushed - kept

  // The wait lasts until enough of the oldest cost no longer counts.
  const isWaiting = !allowed && cost <= quota
  const freed = drop + kept + cost - quota
  const last = isWaiting && freed <= cells[offset]! ? entries.timeOf(freed) : index
  const newest = pushed > 0 || sum === 0 ? index : cells[offset + 1]!

  out.allowed = allowed
  out.at = Math.max(now, index * grain)
  out.retry = allowed ? 0 : !isWaiting ? Infinity : (last + life) * grain - now
  out.remaining = Math.max(0, quota - kept)
  out.reset = kept > 0 ? (newest + life) * grain - now : 0
  out.delay = 0
  out.charged = cost
  out.persist = persist
  out.next[0] = kept
  out.next[1] = newest
  writeEdit(out.edit, drop, 0, 0, index, pushed)
}

const adjust: Algorithm<Name>['adjust'] = (params, cells, offset, now, chargedAt, units, out, entries) => {
  const { index, over } = advance(params, cells, offset, now, entries)
  const sum = cells[offset]! - over
  const newest = cells[offset + 1]!
  const charged = Math.floor(chargedAt / params.grain)
  const cost = units < 0 && charged > index - params.life ? entries.costAt(charged) : 0

  const change = units < 0 ? -Math.min(-units, cost) : Math.min(units, LARGEST - sum)
  const kept = sum + change
  const isEmptied = change < 0 && cost + change === 0 && charged === newest
  out.persist = change !== 0
  out.next[0] = kept
  out.next[1] = units > 0 ? index : !isEmptied ? newest : kept === 0 ? 0 : entries.beforeNewest()
  writeEdit(out.edit, over, charged, Math.max(0, -change), index, Math.max(0, change))
}

const convert: Algorithm<Name>['convert'] = (params, from, cells, offset, now, out, entries) => {
  const newest = cells[offset + 1]!
  const { over } = advance(from, cells, offset, rescale(now, params, from), entries)
  const sum = cells[offset]! - over

  // Times in another grain cannot be kept: everything becomes one entry, made now. With the same grain, the oldest cost is dropped.
  const isSame = from.grain / from.perMs === params.grain / params.perMs
  const index = Math.floor(Math.max(now, -rescale(-newest * from.grain, from, params)) / params.grain)
  // With the same window, a sum above a smaller quota is kept. It is still there when the quota becomes larger again.
  const kept = isSame && from.life === params.life ? sum : Math.min(sum, params.quota)
  out.next[0] = kept
  out.next[1] = kept === 0 ? 0 : isSame ? newest : index
  writeEdit(out.edit, over + (isSame ? sum - kept : sum), 0, 0, index, isSame ? 0 : kept)
}

/** The common part of both algorithms, for any grain. */
export const log: Omit<Algorithm<Name>, 'name' | 'options' | 'deriveParameters'> = {
  parameters: ['quota', 'grain', 'life'],
  cells: [{ name: 'sum' }, { name: 'newest', ticks: 'grain', newest: true }],
  initialState: [0, 0],
  entries: true,
  newEntries: () => new EntryArray(),
  entryTicks: 'grain',
  maxValue: (params) => params.quota,
  step,
  adjust,
  convert,
}

function deriveParameters({ quota, window }: ParameterInput): Readonly<Record<Name, number>> {
  if (quota > MOST_ENTRIES) {
    const others = 'slidingWindowBuckets and slidingWindowCounter take more'
    refuse('quota', `at most ${MOST_ENTRIES} for slidingWindowLog (${others})`, quota)
  }
  return { quota, grain: 1, life: window }
}

/**
 * Allows `quota` in any window, exactly: it keeps every admitted request until it is `window` old. The quota is at most 100,000.
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example slidingWindowLog({ quota: 5, window: '15m' })
 */
export const slidingWindowLog: Algorithm<Name> = {
  ...log,
  name: 'slidingWindowLog',
  options: [],
  deriveParameters,
  leaseUntil: () => Infinity,
}
