import type { Limiter } from '../limiter/contract.ts'
import { chargeSourcesOf } from '../limiter/default-limiter.ts'
import type { ChargeSource } from '../limiter/charges.ts'
import { boundedKey } from '../util/bounded-key.ts'
import { isTestRun, warn } from '../util/warn.ts'
import type { Decision } from '../limiter/decision.ts'
import type { HttpAdapter } from './adapter.ts'
import { clashBetween, type HeaderConfig } from './headers/styles.ts'
import { clientAddress, type ClientInfo, type ProxyHeader, type ProxyTrust, readsOfChecked } from './keys/address.ts'
import { NO_ROUTE } from './keys/request-keyers.ts'
import { isPromise } from '../util/maybe-promise.ts'

// Checks for mistakes in the set-up of a server that leave it unlimited, or limit the wrong clients, although each part of it works. They
// only warn, and the option `checks: false` of `rateLimit` turns all of them off. Mistakes that are certain are errors, and stay errors.
//
// A check that throws has no effect: an app that was made by hand may lack what a check reads (`attempt`).
//
// Each request limiter chooses the requests that are checked (`admit` in `request-limiter.ts`). Other code asks `isChecked`.

/** Returns true while a request is checked: from its start in a request limiter with checks until its decision has taken effect. */
export function isChecked(request: object): boolean {
  return readsOfChecked.has(request)
}

/** Returns what a check returns; `undefined` if it throws. */
function attempt<Result>(check: () => Result): Result | undefined {
  try {
    return check()
  } catch {
    return undefined
  }
}

/** Begins to check a request. Returns a function to call when the request limiter has finished with it. */
export type BeginCheck<Request> = (request: Request) => () => void

/**
 * Creates the checks of a request limiter.
 * @param checkApp looks for mistakes in the set-up of an app. It is called once for each app
 */
export function requestChecks<Request>(
  limiter: Limiter<never>,
  adapter: Pick<HttpAdapter<Request, never, never, never>, 'getApp' | 'getDecision'>,
  checkApp: ((app: object) => void) | undefined,
): BeginCheck<Request> {
  const checkedApps = new WeakSet<object>()
  const noteUse = creationWatch(limiter)
  const warnOfWholeAddress = wholeAddressWarner()

  /** Throws for a request that was made by hand. */
  function appOf(given: Request): object | undefined {
    const app = adapter.getApp?.(given)
    return typeof app === 'object' || typeof app === 'function' ? (app ?? undefined) : undefined
  }

  return function beginCheck(given) {
    const request = given as object
    const app = attempt(() => appOf(given))
    if (app !== undefined && !checkedApps.has(app)) {
      checkedApps.add(app)
      attempt(() => checkApp?.(app))
    }
    const before = adapter.getDecision(given)
    const clients = new Set<ClientInfo<never>>()
    readsOfChecked.set(request, clients)
    return function endCheck() {
      readsOfChecked.delete(request)
      for (const client of clients) attempt(() => checkProxies(client as ClientInfo<object>, request))
      const decision = adapter.getDecision(given)
      // A skipped request has no decision, or that of an earlier request limiter.
      if (decision === undefined || decision === before) return
      noteUse(app)
      attempt(() => warnOfWholeAddress(decision))
    }
  }
}

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
 * them starts from zero, so that no request is ever denied. Without an app, requests of test runners are not counted.
 */
function creationWatch(limiter: Limiter<never>): (app: object | undefined) => void {
  const uses = isServing && !hasWarned ? usesBy(limiter) : undefined
  return function noteUse(app) {
    isServing = true
    if (uses === undefined || uses.count === 2) return
    uses.count++
    if (uses.count === 1) countSingle(uses, app ?? (isTestRun() ? undefined : UNKNOWN_APP))
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

/** The proxy settings of an app, and the function that warns of them. */
interface ProxySettings {
  readonly trust: ProxyTrust
  readonly warn: ReturnType<typeof proxyWarner>
}

/** By framework and app, so that all keyers of an app share its warnings. */
const knownApps = new WeakMap<object, WeakMap<object, ProxySettings>>()

/** Warns, once for each app, if its proxy settings make the addresses of its clients useless. */
function checkProxies<Request>(client: ClientInfo<Request>, request: Request): void {
  const app = client.app(request)
  if (app === undefined) return
  const ofFramework = knownApps.get(client) ?? new WeakMap<object, ProxySettings>()
  knownApps.set(client, ofFramework)
  const known = ofFramework.get(app)
  const settings = known ?? { trust: client.trust(request), warn: proxyWarner() }
  ofFramework.set(app, settings)
  // An app that trusts everybody may set the address of most requests itself, so that only its first request counts.
  if (known !== undefined && settings.trust === 'everybody') return
  settings.warn(client.proxyHeader(request), settings.trust, () => client.isSet?.(request) === true)
}

/** A warning: what is wrong, and what to do. */
interface ProxyWarning {
  readonly code: 'SLUICE_PROXY_UNTRUSTED' | 'SLUICE_PROXY_TRUSTS_ALL'
  readonly message: string
}

const HOW_TO =
  "Tell the framework which proxies are yours: app.set('trust proxy', 1) in Express, trustProxy: '10.0.0.0/8' in Fastify, where " +
  'a number trusts no proxy, app.proxy = true with maxIpsCount: 1 in Koa, with your own numbers; ipKeyer({ address }) where the ' +
  'adapter has this option.'

const untrusted: ProxyWarning = {
  code: 'SLUICE_PROXY_UNTRUSTED',
  message:
    'Requests have an X-Forwarded-For header, but the framework trusts no proxy. All clients behind the proxy share one address ' +
    `and one limit. ${HOW_TO}`,
}

const unread = (header: string): ProxyWarning => ({
  code: 'SLUICE_PROXY_UNTRUSTED',
  message:
    `Requests have the header ${header}, but the framework does not read it. All clients behind ` +
    `the proxy share one address and one limit. Configure the proxy to send X-Forwarded-For. ${HOW_TO}`,
})

const unreadWarnings = { forwarded: unread('Forwarded'), 'x-real-ip': unread('X-Real-IP') } as const

const trustsAll: ProxyWarning = {
  code: 'SLUICE_PROXY_TRUSTS_ALL',
  message:
    'The framework trusts the X-Forwarded-For header of every sender. A client that forges the header gets a new limit with each ' +
    `request. ${HOW_TO}`,
}

/**
 * Returns what is wrong with the address of a request, if anything.
 * @example proxyWarning('x-forwarded-for', 'nobody')?.code // 'SLUICE_PROXY_UNTRUSTED'
 */
export function proxyWarning(header: ProxyHeader | undefined, trust: ProxyTrust): ProxyWarning | undefined {
  if (trust === 'everybody') return trustsAll
  if (header === 'forwarded' || header === 'x-real-ip') return unreadWarnings[header]
  return trust === 'nobody' && header !== undefined ? untrusted : undefined
}

/**
 * Returns a function that checks a request and writes each warning once, unless `isSet` returns true: the app has set the address itself.
 * @example
 * const warnOfProxy = proxyWarner()
 * warnOfProxy(proxyHeaderIn(request.headers), 'nobody')
 */
export function proxyWarner(
  emit: (code: string, message: string) => void = warn,
): (header: ProxyHeader | undefined, trust: ProxyTrust, isSet?: () => boolean) => void {
  const emitted = new Set<ProxyWarning>()
  return function warnOfProxy(header, trust, isSet) {
    const warning = proxyWarning(header, trust)
    if (warning === undefined || emitted.has(warning) || isSet?.() === true) return
    emitted.add(warning)
    emit(warning.code, warning.message)
  }
}

/** Warns of a middleware that is the last one after routes. */
export function warnOfLateMount(): void {
  warn(
    'SLUICE_MOUNTED_LATE',
    'A rate limit is mounted after all routes of its app or router, so it limits only requests that no route responds to. Call ' +
      '`app.use(rateLimit(…))` before the routes.',
  )
}

/** Warns, once for each app, of a limit by route that is mounted where the route is not known yet. */
export function warnOfNoRoute(app: object): void {
  if (appsWithoutRoute.has(app)) return
  appsWithoutRoute.add(app)
  warn(
    'SLUICE_NO_ROUTE',
    '`byRoute` runs before the route of a request is known, so all requests share one bucket. Put the rate limit ' +
      'into the route, such as app.get(path, limit, handler) in Express, or into the router in Koa, or remove `byRoute`.',
  )
}

const appsWithoutRoute = new WeakSet<object>()

/**
 * Returns the key of a request whose route is not known yet. A rate limit that checks the request warns, once for each app.
 * @example const byRoute = (request: express.Request) => (request.route === undefined ? unroutedKey(request, request.app) : routeKey(request.method, request.route.path))
 */
export function unroutedKey(request: object, app: object): string {
  if (isChecked(request)) attempt(() => warnOfNoRoute(app))
  return NO_ROUTE
}

/** Warns that a limit of Fastify decides before hooks that its keyer may need. */
export function warnOfEarlyRoute(): void {
  warn(
    'SLUICE_EARLY_ROUTE',
    "A limit with `hook: 'preHandler'` runs before the preHandler hooks of a route or a 404 handler that was declared before " +
      "sluice was loaded. A keyer cannot use what these hooks set. Import 'sluice/fastify' before the app is created.",
  )
}

/** Warns that nothing uses the limits of a module of Nest. */
export function warnOfNoGuard(): void {
  warn(
    'SLUICE_NO_GUARD',
    'RateLimitModule is imported, but no RateLimitGuard was created, so nothing is limited. Add ' +
      '{ provide: APP_GUARD, useClass: RateLimitGuard } to the providers of a module, or @UseGuards(RateLimitGuard) to a class.',
  )
}

/** The limiters that a warning was written for, by its code. */
const warnedLimiters = { SLUICE_MOUNTED_TWICE: new WeakSet<object>(), SLUICE_SAME_PLACE: new WeakSet<object>() }

const COUNTED_ONCE = 'The request is counted once. Use the middleware in one place only.'
const COUNTED_TWICE =
  'The second pass also has other limits, so the common limits count the request twice. Give all limits to one middleware, or ' +
  'use different limiters for the app and for its routes.'

/** Warns of a limiter that a request passes twice. */
export function warnMountedTwice(
  limiter: object,
  sources: readonly ChargeSource<never>[],
  isCountedOnce: boolean,
): void {
  warnOnce(
    limiter,
    'SLUICE_MOUNTED_TWICE',
    `A request passed the limiter ${namesOf(sources)} twice, such as on the app and on one of its routes. ` +
      (isCountedOnce ? COUNTED_ONCE : COUNTED_TWICE),
  )
}

/** Warns of two limiters that may count in one place, although their stores are two. */
export function warnSamePlace(limiter: object, sources: readonly ChargeSource<never>[]): void {
  warnOnce(
    limiter,
    'SLUICE_SAME_PLACE',
    `A request passed two limiters named ${namesOf(sources)}, with the same limit and key, on two stores. If both stores use one server, ` +
      'such as over two connections, the request is charged twice. Give one of them another `name`, or use one store. If they should ' +
      'share their counts, set `shared: true`.',
  )
}

function warnOnce(limiter: object, code: keyof typeof warnedLimiters, message: string): void {
  if (!warnedLimiters[code].has(limiter)) warn(code, message)
  warnedLimiters[code].add(limiter)
}

function namesOf(sources: readonly ChargeSource<never>[]): string {
  return [...new Set(sources.map(({ name }) => `"${name}"`))].join(', ')
}

/** Returns a function that warns, once for each, of earlier request limiters that write the same header in another way. */
export function clashWarner(config: HeaderConfig): (earlier: readonly { readonly config: HeaderConfig }[]) => void {
  const compared = new WeakSet([config])
  return function warnOfClashes(earlier) {
    for (const { config: other } of earlier) {
      if (compared.has(other)) continue
      compared.add(other)
      const clash = clashBetween(other, config)
      if (clash !== undefined)
        warn(
          'SLUICE_STYLES_CLASH',
          `Two rate limits of one request write the same header in two styles: ${clash}. Give both the same \`headers\`.`,
        )
    }
  }
}

/** Texts that may be a public address. The part of another keyer may follow. */
const PUBLIC = /(?<![\da-f])[23][\da-f]{3}(?::[\da-f]{0,4}){2,7}(?<!:)/gi

/**
 * Returns a function that warns once when a key is or contains a whole IPv6 address, which is only one of many that a client has.
 * `ipKeyer` never makes such a key: it appends the length of the prefix.
 */
function wholeAddressWarner(): (decision: Decision) => void {
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
export function warnIfUnanswered(request: object, onDenied: object, isAnswered: () => boolean): void {
  if (!isChecked(request) || isAnswered() || watched.has(onDenied)) return
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
export function warnIfPending<Answer>(
  request: object,
  onDenied: object,
  answer: Answer,
  isAnswered: () => boolean,
): Answer {
  if (!isPromise(answer) || !isChecked(request)) return answer
  let isSettled = false
  const settled = (): void => void (isSettled = true)
  const promise = Promise.resolve(answer)
  promise.then(settled, settled)
  warnIfUnanswered(request, onDenied, () => isSettled || isAnswered())
  return promise as Answer
}
