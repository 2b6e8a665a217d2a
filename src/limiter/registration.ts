import { limit } from '../limits/limit.ts'
import { isMemoryStore } from '../stores/memory/key-counts.ts'
import { identitiesBeside, whenNeighbours } from '../stores/places.ts'
import type { Store } from '../stores/store.ts'
import { shared } from '../util/copies.ts'
import { shown, SluiceError } from '../util/errors.ts'
import { warn } from '../util/warn.ts'
import { WeakValues } from '../util/weak-values.ts'
import { isEqual } from './keyers.ts'
import type { LimiterOptions, RulesLimiterOptions } from './options.ts'

type Options = LimiterOptions<never> | RulesLimiterOptions<never>

/** Identifies the counts of limiters. It is registered while one of them is in use. */
class Home {
  readonly options: Options
  /** The home that was registered first under its name, so that it stays registered. */
  readonly first: Home | undefined

  constructor(options: Options, first: Home | undefined) {
    this.options = options
    this.first = first
  }
}

/** By what stores count in, then by name. */
const homes = shared('homes', () => new WeakMap<object, WeakValues<Home>>())

/**
 * Returns the home of a limiter, an object that identifies its counts. Limiters whose definitions are equal data have one home. Throws
 * `DUPLICATE_LIMITER` when another limiter on the store has the name, unless one of the two is `shared`.
 */
export function homeOf(name: string, store: Store, options: Options): Home {
  const place = store.identity ?? store
  const first = homes.get(place)?.get(name)
  if (first === undefined) return homeBeside(name, place, options)
  const difference = differenceOf(first.options, options)
  if (difference === undefined) return first
  if (!areShared(first.options, options)) throw duplicate(name, options, difference)
  return new Home(options, first)
}

/** Returns the home of a limiter whose name another one has that counts in the same place over another connection, or a new home. */
function homeBeside(name: string, place: object, options: Options): Home {
  for (const other of identitiesBeside(place)) {
    const before = homes.get(other)?.get(name)
    if (before === undefined) continue
    if (differenceOf(before.options, options) === undefined) return before
    if (!areShared(before.options, options)) warnOfSamePlace(name)
    return new Home(options, before)
  }
  return new Home(options, undefined)
}

/** Warns of limiters that were made before it was known that their stores count in the same place. */
whenNeighbours(function warnOfNames(one, other) {
  const [some, others] = [homes.get(one), homes.get(other)]
  for (const name of some?.names() ?? []) {
    const [a, b] = [some!.get(name), others?.get(name)]
    if (a === undefined || b === undefined || a === b || a.first === b || b.first === a) continue
    if (!areShared(a.options, b.options)) warnOfSamePlace(name)
  }
})

/** The names that a warning was written for. */
const warned = new Set<string>()
const MOST_WARNED = 100

function warnOfSamePlace(name: string): void {
  if (warned.has(name) || warned.size >= MOST_WARNED) return
  warned.add(name)
  warn(
    'SLUICE_SAME_PLACE',
    `Two limiters named ${shown(name)} use the same server over two connections. They share their counts, and a request that passes ` +
      'both is charged twice. Give one of them another `name`, or set `shared: true` if they should share their counts. If a hot reload ' +
      'created the second one, set `shared: true` in development.',
  )
}

/** Returns true for a limiter that was given no store, or a memory store that no limiter has used yet. Call it before `register`. */
export function countsFromZero(given: Store | undefined): boolean {
  if (given === undefined) return true
  const place = given.identity ?? given
  return isMemoryStore(place as Store) && !homes.has(place)
}

/** Registers a limiter under its name. The first one with a name stays registered. */
export function register(name: string, store: Store, home: Home): void {
  const place = store.identity ?? store
  const known = homes.get(place) ?? new WeakValues<Home>()
  homes.set(place, known)
  if (known.get(name) === undefined) known.set(name, home)
}

function areShared(one: Options, other: Options): boolean {
  return one.shared === true || other.shared === true
}

/** What a definition consists of. */
const PARTS = ['keyer', 'limits', 'cost', 'rules'] as const

/** Returns the first part in which two definitions are not equal data. */
function differenceOf(one: Options, other: Options): (typeof PARTS)[number] | undefined {
  const [some, others] = [definitionIn(one), definitionIn(other)]
  return PARTS.find((part) => !isEqual(some[part], others[part]))
}

function definitionIn(options: Options): Readonly<Record<(typeof PARTS)[number], unknown>> {
  const { keyer, limits, cost, rules } = options as { readonly [part in (typeof PARTS)[number]]?: unknown }
  return { keyer, limits: limits === undefined ? [] : [limits].flat().map(normalized), cost, rules }
}

/** Limits of the same meaning are equal data, however they are written. */
function normalized(source: unknown): unknown {
  return typeof source === 'object' && source !== null ? limit(source as Parameters<typeof limit>[0]) : source
}

function duplicate(name: string, options: Options, difference: string): SluiceError {
  const named =
    options.name === undefined
      ? `Two limiters without a \`name\` use the same store, so both are ${shown(name)}`
      : `Two limiters named ${shown(name)} use the same store`
  return new SluiceError(
    'DUPLICATE_LIMITER',
    `${named}, and their \`${difference}\` differs. Functions are equal only if they are one function: equal code can use other variables. ` +
      'Give each limiter its own `name`. If they should share their counts, create one limiter and use it in both places, or set `shared: true`. ' +
      'If a hot reload or a second build of the app created the limiter again, set `shared: true` in development, or create the store ' +
      'together with the limiter.',
  )
}
