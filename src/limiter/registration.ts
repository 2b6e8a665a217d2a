import type { LimiterOptions, RulesLimiterOptions } from './options.ts'
import { isMemoryPlace } from '../stores/memory/key-counts.ts'
import { shown, SluiceError } from '../util/errors.ts'
import { madeOnce, shared, WeakValues } from '../util/copies.ts'
import { limit, type LimitInput } from '../engine/limit.ts'
import type { Store } from '../stores/store.ts'
import { isEqual } from './keyers.ts'

type Options = LimiterOptions<never> | RulesLimiterOptions<never>

/** Identifies the counts of limiters. It is registered while one of these limiters is in use. */
interface Home {
  readonly options: Options
  /** The home that was registered first under the same name. This reference keeps it registered. */
  readonly first?: Home
}

const homes = shared('homes', () => new WeakMap<object, WeakValues<Home>>())

/**
 * Makes a limiter or a part of one, and registers its name on its store. Limiters whose definitions are equal share one home, an object that identifies
 * their counts. Throws `DUPLICATE_LIMITER` if another limiter on the store has the name, unless one of the two is `shared`.
 */
export function registered<Made>(name: string, store: Store, options: Options, make: (home: object) => Made): Made {
  const first = homes.get(store.place)?.get(name)
  const home = first === undefined ? { options } : homeBeside(first, name, options)
  // If wrong options throw here, the name stays free.
  const made = make(home)
  madeOnce(homes, store.place, () => new WeakValues<Home>()).of(name, () => home)
  return made
}

function homeBeside(first: Home, name: string, options: Options): Home {
  const difference = PARTS.find((part) => !isEqual(partOf(first.options, part), partOf(options, part)))
  if (difference === undefined) return first
  if (first.options.shared === true || options.shared === true) return { options, first }
  throw duplicate(name, options, difference)
}

/** Returns true for a limiter that was given no store, or a memory store that no limiter has used yet. Call it before `registered`. */
export function countsFromZero(given: Store | undefined): boolean {
  if (given === undefined) return true
  return isMemoryPlace(given.place) && !homes.has(given.place)
}

export function isSharedHome(home: object): boolean {
  return (home as Home).options.shared === true
}

const PARTS = ['keyer', 'limits', 'cost', 'rules'] as const

/** Returns a part of options. Limits are normalized, so that limits with the same meaning are equal data. */
function partOf(options: Partial<Record<(typeof PARTS)[number], unknown>>, part: (typeof PARTS)[number]): unknown {
  const given = options[part]
  if (part !== 'limits' || given === undefined) return given
  return [given].flat().map((source: unknown) => {
    return typeof source === 'object' && source !== null ? limit(source as LimitInput) : source
  })
}

function duplicate(name: string, options: Options, difference: string): SluiceError {
  const named =
    options.name === undefined
      ? `Two limiters without a \`name\` use the same store, so both are ${shown(name)}`
      : `Two limiters named ${shown(name)} use the same store`
  return new SluiceError(
    'DUPLICATE_LIMITER',
    `${named}, and their \`${difference}\` differs. Functions are equal only if they are one function. Give each limiter its own \`name\`. If they ` +
      'should share their counts, or a hot reload creates the limiter again, set `shared: true`.',
  )
}
