import { limit } from '../limits/limit.ts'
import { isMemoryPlace } from '../stores/memory/key-counts.ts'
import type { Store } from '../stores/store.ts'
import { shared } from '../util/copies.ts'
import { shown, SluiceError } from '../util/errors.ts'
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

/** By the places of stores, then by name. */
const homes = shared('homes', () => new WeakMap<object, WeakValues<Home>>())

/**
 * Returns the home of a limiter, an object that identifies its counts. Limiters whose definitions are equal data have one home. Throws
 * `DUPLICATE_LIMITER` when another limiter on the store has the name, unless one of the two is `shared`.
 */
export function homeOf(name: string, store: Store, options: Options): Home {
  const first = homes.get(store.place)?.get(name)
  if (first === undefined) return new Home(options, undefined)
  const difference = differenceOf(first.options, options)
  if (difference === undefined) return first
  if (!areShared(first.options, options)) throw duplicate(name, options, difference)
  return new Home(options, first)
}

/** Returns true for a limiter that was given no store, or a memory store that no limiter has used yet. Call it before `register`. */
export function countsFromZero(given: Store | undefined): boolean {
  if (given === undefined) return true
  return isMemoryPlace(given.place) && !homes.has(given.place)
}

/** Registers a limiter under its name. The first one with a name stays registered. */
export function register(name: string, store: Store, home: Home): void {
  const known = homes.get(store.place) ?? new WeakValues<Home>()
  homes.set(store.place, known)
  if (known.get(name) === undefined) known.set(name, home)
}

/** Returns true for the home of a limiter with `shared: true`. */
export function isSharedHome(home: object): boolean {
  return (home as Home).options.shared === true
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
