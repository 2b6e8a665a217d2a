import type { Limiter } from '../limiter/contract.ts'
import { chargeSourcesOf } from '../limiter/limiter.ts'
import { boundedKey } from '../util/bounded-key.ts'
import { isTestRun, warn } from '../util/warn.ts'
import type { Decision } from '../limiter/decision.ts'
import { clientAddress } from './keys/address.ts'
import { isPromise } from '../util/maybe-promise.ts'

// Checks for mistakes that leave a service unlimited although each part of it works. They only warn.

/** A handler creates so many limiters in ten seconds when somebody tries it. Somebody who edits a file for a hot reload does not. */
const FEW = 5
const SOON = 10_000
/** However long it takes. */
const MANY = 100
/** The definitions that are counted for one app. */
const MOST_DEFINITIONS = 1000

/** What has been seen of one limiter. */
interface Uses {
  readonly definition: string
  count: number
  /** The app of its first request. */
  app: object | undefined
}

/** Limiters in a row with one definition, each used for one request of one app: how many, and the times of the latest. */
interface Singles {
  count: number
  readonly times: number[]
}

/** True once this process has served a request. Limiters are usually created before. */
let isServing = false
let hasWarned = false
/** By the first part of a limiter. */
const usesOf = new WeakMap<object, Uses>()
/** By app, and then by definition. Tests create an app for each of their limiters, and a handler has one. */
const singlesOf = new WeakMap<object, Map<string, Singles>>()
/** In place of an app where a request does not say which one it belongs to. */
const UNKNOWN_APP = {}

/**
 * Returns a function to call with the app of each request of a limiter. It warns when a handler creates a limiter for each request: each of
 * them starts from zero, so that no request is ever denied.
 * @param appOf returns the app or the server of a request. Without one, requests of test runners are not counted.
 */
export function creationWatch<Request>(
  limiter: Limiter<never>,
  appOf: ((request: Request) => object | undefined) | undefined,
): (request: Request) => void {
  const uses = isServing && !hasWarned ? usesBy(limiter) : undefined
  return function noteUse(request) {
    isServing = true
    if (uses === undefined || uses.count === 2) return
    uses.count++
    if (uses.count === 1) countSingle(uses, appOf?.(request) ?? (isTestRun() ? undefined : UNKNOWN_APP))
    else if (uses.app !== undefined) singlesOf.get(uses.app)?.delete(uses.definition)
  }
}

/** A limiter continues the counts of a store that is not new. */
function usesBy(limiter: Limiter<never>): Uses | undefined {
  const [part] = chargeSourcesOf(limiter)
  if (part === undefined || !part.startsFromZero) return undefined
  const uses = usesOf.get(part) ?? { definition: boundedKey(part.describe()), count: 0, app: undefined }
  usesOf.set(part, uses)
  return uses
}

function countSingle(uses: Uses, app: object | undefined): void {
  uses.app = app
  if (app === undefined || hasWarned) return
  const singles = singlesIn(app, uses.definition)
  const now = performance.now()
  singles.count++
  singles.times.push(now)
  if (singles.times.length > FEW) singles.times.shift()
  const isSoon = singles.times.length === FEW && now - singles.times[0]! <= SOON
  if (!isSoon && singles.count < MANY) return
  hasWarned = true
  warn(
    'SLUICE_CREATED_PER_REQUEST',
    `${singles.count} rate limits with equal options were created while requests were served, and each has seen a single request. A rate ` +
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
  const singles = { count: 0, times: [] }
  byDefinition.set(definition, singles)
  return singles
}

/** Warns of a middleware that is the last one after routes. */
export function warnOfLateMount(): void {
  warn(
    'SLUICE_MOUNTED_LATE',
    'A rate limit is mounted after all routes of its app or router, so it limits only requests that no route responds to. Call ' +
      '`app.use(rateLimit(…))` before the routes.',
  )
}

/** Texts that may be a public address. The part of another keyer may follow. */
const PUBLIC = /(?<![\da-f])[23][\da-f]{3}(?::[\da-f]{0,4}){2,7}(?<!:)/gi

/**
 * Returns a function that warns once when a key is or contains a whole IPv6 address, which is only one of many that a client has.
 * `ipKeyer` never makes such a key: it appends the length of the prefix.
 */
export function wholeAddressWarner(): (decision: Decision) => void {
  let warned = false
  let checked = ''
  return function warnOfWholeAddress({ limits }) {
    if (warned) return
    for (let i = 0; i < limits.length; i++) {
      const { key } = limits[i]!
      if (key === checked) continue
      checked = key
      if (isWholeAddress(key)) return warnOnce()
    }
  }
  function warnOnce(): void {
    warned = true
    warn(
      'SLUICE_WHOLE_ADDRESS',
      'The keyer of a rate limit returned a whole IPv6 address. A client can use many addresses, and gets a new ' +
        'limit with each of them. Use `byIP` or `ipKeyer` for the part of the key that is an address: `apiKey ?? byIP(request)`.',
    )
  }
}

/** Returns true for an IPv6 address that does not carry an IPv4 address, and for a text that contains a public one. */
export function isWholeAddress(key: string): boolean {
  const colon = key.indexOf(':')
  // Most keys end here.
  if (colon === -1 || !key.includes(':', colon + 1)) return false
  return (key[0] !== '[' && isIPv6(key)) || containsAddress(key)
}

/** Public addresses begin with 2 or 3. A prefix, such as in a key of `ipKeyer`, is none. */
function containsAddress(key: string): boolean {
  for (const { 0: found, index } of key.matchAll(PUBLIC)) {
    if (isIPv6(found) && !/^\/\d/.test(key.slice(index + found.length))) return true
  }
  return false
}

function isIPv6(text: string): boolean {
  return clientAddress(text)?.includes(':') === true
}

/** How long an `onDenied` may take until a warning says that it has not answered. */
const PATIENCE = 10_000

const MESSAGE =
  'An `onDenied` function has sent no response for 10 s, so the client is still waiting. Send a response, or call `next` if there is one.'

/** The `onDenied` functions that are watched, or that a warning was written for. */
const watched = new WeakSet<object>()

/**
 * Warns once for each `onDenied` that does not answer within ten seconds of its call: its client waits. It watches one response at a
 * time, and keeps no process alive.
 */
export function warnIfUnanswered(onDenied: object, isAnswered: () => boolean): void {
  if (isAnswered() || watched.has(onDenied)) return
  watched.add(onDenied)
  const timer: unknown = setTimeout(() => {
    if (isAnswered()) watched.delete(onDenied)
    else warn('SLUICE_NOT_ANSWERED', MESSAGE)
  }, PATIENCE)
  // Some runtimes have timers that are numbers.
  ;(timer as { unref?(): void }).unref?.()
}

/**
 * Does the same where a framework answers when `onDenied` has returned: its promise may stay pending.
 * @param answer what `onDenied` returned
 * @param isAnswered returns true when the response does not wait for the promise
 * @returns the same answer
 */
export function warnIfPending<Answer>(onDenied: object, answer: Answer, isAnswered: () => boolean): Answer {
  if (!isPromise(answer)) return answer
  let isSettled = false
  const settled = (): void => void (isSettled = true)
  const promise = Promise.resolve(answer)
  promise.then(settled, settled)
  warnIfUnanswered(onDenied, () => isSettled || isAnswered())
  return promise as Answer
}
