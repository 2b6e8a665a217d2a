import { isMemoryStore } from '../stores/memory/tables.ts'
import { identitiesBeside, whenNeighbours } from '../stores/places.ts'
import type { Store } from '../stores/store.ts'
import type { Limit } from '../limits/limit.ts'
import { shared } from '../util/copies.ts'
import { shown, SluiceError } from '../util/errors.ts'
import { warn } from '../util/warn.ts'
import { WeakValues } from '../util/weak-values.ts'
import { definitionOf } from './keyers.ts'
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
 * Returns the home of a limiter, an object that identifies its counts. Limiters with the same definition have one home:
 * a hot reload evaluates a module again. Throws `DUPLICATE_LIMITER` when another limiter on the store has the name.
 */
export function homeOf(name: string, store: Store, options: Options): Home {
  const place = store.identity ?? store
  const first = homes.get(place)?.get(name)
  if (first === undefined) return homeBeside(name, place, options)
  if (isSame(first.options, options)) return first
  if (options.shared !== true) throw duplicate(name)
  return new Home(options, first)
}

/** Returns the home of a limiter whose name another one has that counts in the same place over another connection, or a new home. */
function homeBeside(name: string, place: object, options: Options): Home {
  for (const other of identitiesBeside(place)) {
    const before = homes.get(other)?.get(name)
    if (before === undefined) continue
    if (isSame(before.options, options)) return before
    if (options.shared !== true) warnOfSamePlace(name)
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
    if (a.options.shared !== true && b.options.shared !== true) warnOfSamePlace(name)
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
      'both is charged twice. Give one of them another `name`, or set `shared: true` if they should share their counts.',
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

function isSame(one: Options, other: Options): boolean {
  return (
    one.shared === other.shared &&
    rulesOf(one) === rulesOf(other) &&
    isSameFunction(one.keyer, other.keyer) &&
    isSameFunction(one.cost, other.cost) &&
    areSameLimits(limitsOf(one), limitsOf(other))
  )
}

function rulesOf(options: Options): unknown {
  return 'rules' in options ? options.rules : undefined
}

function limitsOf({ limits }: Options): readonly Source[] {
  return limits === undefined ? [] : [limits].flat()
}

type Source = Limit | ((input: never) => unknown)

function areSameLimits(some: readonly Source[], others: readonly Source[]): boolean {
  return some.length === others.length && some.every((each, i) => isSameLimit(each, others[i]!))
}

function isSameLimit(one: Source, other: Source): boolean {
  if (typeof one === 'function' || typeof other === 'function') return isSameFunction(one, other)
  return one === other || JSON.stringify(one) === JSON.stringify(other)
}

/** True for one function, and for two of the same text: a module that is evaluated again creates its functions again. */
function isSameFunction(one: unknown, other: unknown): boolean {
  if (one === other) return true
  return typeof one === 'function' && typeof other === 'function' && definitionOf(one) === definitionOf(other)
}

function duplicate(name: string): SluiceError {
  return new SluiceError(
    'DUPLICATE_LIMITER',
    `A limiter named ${shown(name)} with another definition already uses the same store. ` +
      'Give this limiter another `name`, or set `shared: true` if both should share their counts. ' +
      'If a hot reload or a second build of the app changed the definition, create the store together with the limiter.',
  )
}
