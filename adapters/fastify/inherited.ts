import { LIMITER_OPTIONS } from '../../src/limiter/options.ts'
import type { CreateHook, Hook } from './own-routes.ts'

/** Options of `rateLimit` before they are checked. */
export type GivenOptions = Readonly<Record<string, unknown>>

/** What routes inherit from a scope. */
export interface Inheritable {
  readonly hook: Hook
  readonly options: GivenOptions
}

/** What a limiter counts, and under which name, is its own. */
const NEVER = ['limits', 'limiter', 'rules', 'name', 'shared']
/** Options that belong together: one of them replaces all of the scope. */
const GROUPS = [
  ['onDenied', 'message', 'statusCode'],
  ['headers', 'headerNames', 'unit', 'partitionKey'],
]

/**
 * Adds the options of a scope to those of a route: all that the route does not give itself, except what is counted and its name. A
 * `limiter` and `rules` have their own keys, costs and store.
 *
 * @param name the name of the limiter in a store that it shares with the limiter of the scope
 */
export function withInherited(own: unknown, scope: GivenOptions, name?: string): GivenOptions {
  if (!isOptions(own)) return own as GivenOptions
  const isGiven = (option: string): boolean => own[option] !== undefined
  const isWhole = isGiven('limiter') || isGiven('rules')
  const omitted = new Set([
    ...NEVER,
    ...(isWhole ? LIMITER_OPTIONS : []),
    ...GROUPS.filter((group) => group.some(isGiven)).flat(),
    ...Object.keys(own).filter(isGiven),
  ])
  const inherited = Object.entries(scope).filter(([option]) => !omitted.has(option))
  const isNamed = name !== undefined && !isGiven('name') && inherited.some(([option]) => option === 'store')
  return { ...Object.fromEntries(inherited), ...own, ...(isNamed && { name }) }
}

/** Returns `create` for a route, which inherits the options of a scope. */
export function inheriting(
  { options: inherited }: Inheritable,
  create: CreateHook,
  ...[method, url, constraints]: [method: unknown, url: string, constraints?: unknown]
): CreateHook {
  return (options) => {
    const name = limiterName(inherited, method, url, constraints)
    return create(withInherited(options, inherited, name) as never)
  }
}

/** Returns the name of a route's limiter in the store of its scope: the same in each process. */
function limiterName(scope: GivenOptions, method: unknown, url: string, constraints: unknown = {}): string {
  const version = Object.keys(constraints as object).length === 0 ? '' : ` ${JSON.stringify(constraints)}`
  const name = `${(scope['name'] ?? 'default') as string} ${String(method)} ${url}${version}`
  return name.replace(/[^\x20-\x7e]/gu, (character) => `u+${character.codePointAt(0)!.toString(16)}`)
}

/** A request or an app instead of options is left to the check of the options. */
function isOptions(own: unknown): own is GivenOptions {
  return (
    typeof own === 'object' && own !== null && [Object.prototype, null].includes(Object.getPrototypeOf(own) as null)
  )
}
