import type { Limiter } from '../../limiter/contract.ts'
import { tools } from './tools.ts'

/** Within ten seconds, a handler that is tried out creates at least this number of limiters. Hot reloads create fewer. */
const FEW = 5
const SOON = 10_000
/** The number of limiters after which there is a warning, in any time. */
const MANY = 100
/** The most definitions that are counted for one app. */
const MOST_DEFINITIONS = 1000

interface Uses {
  readonly definition: string
  count: number
  /** The app of its first request. */
  app: object | undefined
}

/** Limiters with the same definition, created at one place, that were each used for one request of one app: their number, and the times of the latest. */
interface Singles {
  count: number
  readonly times: number[]
  /** True if they become a warning, unless one of them serves a second request first. */
  isDoubted: boolean
}

/** True after this process has served a request. Limiters are usually created earlier. */
let isServing = false
/** The uses of limiters, by the first part of each limiter. */
const usesOf = new WeakMap<object, Uses>()
/** By app, and then by definition. Tests create an app for each of their limiters, and a handler has one. */
const singlesOf = new WeakMap<object, Map<string, Singles>>()
/** In place of an app where a request does not say which one it belongs to. */
const UNKNOWN_APP = {}

/**
 * Returns a function to call with the app of each request of a limiter. It warns when a handler creates a limiter for each request: each of
 * them starts from zero, so that no request is ever denied. Without an app, requests of test runners are not counted.
 */
export function creationWatch(limiter: Limiter<never>): (app: object | undefined) => void {
  const uses = isServing && !tools.createdPerRequest.hasWarned ? usesBy(limiter, String(new Error().stack)) : undefined
  return function noteUse(app) {
    isServing = true
    if (uses === undefined || uses.count === 2) return
    uses.count++
    if (uses.count === 1) countSingle(uses, app ?? (tools.isTestRun() ? undefined : UNKNOWN_APP))
    else if (uses.app !== undefined) singlesOf.get(uses.app)?.delete(uses.definition)
  }
}

/**
 * Returns the uses of a limiter; `undefined` if it continues the counts of a store that is not new.
 * @param place the calls that create the limiter. Frameworks that load the module of a route at its first request create equal limiters at several places
 */
function usesBy(limiter: Limiter<never>, place: string): Uses | undefined {
  const [part] = tools.chargeSourcesOf(limiter)
  if (part === undefined || !part.startsFromZero) return undefined
  const uses = usesOf.get(part) ?? {
    definition: tools.boundedKey([...part.definition.map(described), place].join()),
    count: 0,
    app: undefined,
  }
  usesOf.set(part, uses)
  return uses
}

/** Describes a part of a definition. Equal texts mean that two limiters are probably from the same code, but are no proof. */
function described(part: unknown): string {
  // The name is left out: a program that creates a limiter for each request may give each one another name.
  if (typeof part !== 'function')
    return JSON.stringify(part, (name, value: unknown) => (name === 'name' ? undefined : value))
  const definition = tools.definitionOf(part)
  return definition === undefined
    ? Function.prototype.toString.call(part)
    : `${definition.factory}(${definition.given.map(described).join()})`
}

function countSingle(uses: Uses, app: object | undefined): void {
  uses.app = app
  if (app === undefined || tools.createdPerRequest.hasWarned) return
  const singles = singlesIn(app, uses.definition)
  const now = performance.now()
  singles.count++
  singles.times.push(now)
  if (singles.times.length > FEW) singles.times.shift()
  const isSoon = singles.times.length === FEW && now - singles.times[0]! <= SOON
  if (singles.isDoubted || (!isSoon && singles.count < MANY)) return
  singles.isDoubted = true
  tools.background(tools.createdPerRequest.doubtMs, () => {
    if (singlesOf.get(app)?.get(uses.definition) === singles) warnCreated(singles)
  })
}

function warnCreated({ count }: Singles): void {
  if (tools.createdPerRequest.hasWarned) return
  tools.createdPerRequest.hasWarned = true
  tools.warn(
    'SLUICE_CREATED_PER_REQUEST',
    `${count} rate limits with equal options were created while requests were served, and each has seen a single request. A rate ` +
      'limit that is created in a handler starts from zero on every request, so it never denies one. Create it once, outside of the ' +
      'handler, or give it a `store` that is created once.',
  )
}

function singlesIn(app: object, definition: string): Singles {
  const byDefinition = singlesOf.get(app) ?? new Map<string, Singles>()
  singlesOf.set(app, byDefinition)
  const known = byDefinition.get(definition)
  if (known !== undefined) return known
  if (byDefinition.size >= MOST_DEFINITIONS) byDefinition.clear()
  const singles = { count: 0, times: [], isDoubted: false }
  byDefinition.set(definition, singles)
  return singles
}
