import type { FastifyInstance, RouteOptions } from 'fastify'
import { HEADER_OPTIONS } from '../../src/http/headers/options.ts'
import { reasonOf, SluiceError } from '../../src/util/errors.ts'
import { LIMITER_OPTIONS } from '../../src/limiter/options.ts'
import { ownOptions, refuse } from '../../src/util/validate.ts'
import { createHook, type Hook, type LimitHook } from './adapter.ts'

/** A route with `config.rateLimit`. Its limit replaces the limits of the scopes around it. */
export interface OwnRoute {
  readonly options: unknown
  /** The route. Hooks of the application may change it after the declaration. */
  readonly route: Pick<RouteOptions, 'method'>
  readonly url: string
  readonly constraints?: unknown
  /** The `config.rateLimit` and the handler of the declaration. */
  readonly given?: unknown
  readonly handler?: unknown
  /** Undefined until the app is ready, and if the options are not for this package. */
  limit?: LimitHook
  /** The scope limit that calls `limit`. Set if the route was declared before this package was loaded, so that it has no hook of its own. */
  readonly caller?: object
}

/** A route whose declaration this package has seen, so that it has its own hooks. */
export interface DeclaredRoute extends OwnRoute {
  readonly scope: FastifyInstance
  /** When the limit decides. Undefined until the app is ready. */
  hook?: Hook
  /** The hook of a limit at `preHandler`, for the end of the route's hooks. */
  readonly last: LimitHook
}

/**
 * Adds a hook to a route with `config.rateLimit`. A hook at `preHandler` is only returned, in `last`. If the options have no `hook`, the route gets both
 * hooks, and the scope decides which of them limits. Returns `undefined` for any other route.
 */
export function addOwnHook(
  route: RouteOptions,
  declaration: Omit<DeclaredRoute, 'route' | 'options' | 'last'>,
): DeclaredRoute | undefined {
  const options = configOf(route)
  if (options === undefined || options === false) return undefined
  const limitAt =
    (hook: Hook): LimitHook =>
    (request, reply, done) => {
      if (own.limit === undefined || own.hook !== hook) done()
      else own.limit(request, reply, done)
    }
  const own: DeclaredRoute = { ...declaration, route, options, last: limitAt('preHandler') }
  if (hookIn(options) !== 'preHandler')
    route.onRequest = ([] as unknown[]).concat(route.onRequest ?? [], limitAt('onRequest')) as never
  return own
}

/** Returns the `hook` of options that are not checked yet. */
export function hookIn(options: unknown): Hook | undefined {
  return ownOptions(options as { readonly hook?: Hook }).hook
}

export function configOf({ config }: RouteOptions): unknown {
  return (config as { readonly rateLimit?: unknown } | undefined)?.rateLimit
}

/** Creates the limit of a route, which inherits from a scope. A route and its HEAD route share one limit. */
export function createOwnLimit(own: OwnRoute, routes: readonly OwnRoute[], { options: inherited }: Inheritable): void {
  own.limit = routes.find((each) => sharesLimit(each, own))?.limit ?? createFor(own, inherited)
}

/** Returns true for a GET route and its HEAD route. For a route at `/prefix` Fastify also declares `/prefix/`. */
function sharesLimit(a: OwnRoute, b: OwnRoute): boolean {
  // A hook of the application may have created separate options for each route.
  const alike = a.options === b.options || (a.handler !== undefined && a.given === b.given && a.handler === b.handler)
  const [one, other] = [a, b].map(({ url }) => (url.endsWith('/') ? url : `${url}/`))
  const methods = [a.route.method, b.route.method]
  const isSame = String(methods[0]) === String(methods[1])
  return (
    alike &&
    a.constraints === b.constraints &&
    one === other &&
    (isSame || (methods.includes('HEAD') && methods.flat().includes('GET')))
  )
}

/** Creates the hook of a route. Throws as `createHook` does, with the name of the route. */
function createFor(own: OwnRoute, inherited: GivenOptions): LimitHook {
  const { route, url, constraints = {}, options, caller } = own
  const { method } = route
  // If the route was declared before this package was loaded, either the GET route or its HEAD route can have the first request.
  const counted = caller !== undefined && method === 'HEAD' ? 'GET' : method
  const version = Object.keys(constraints as object).length === 0 ? '' : ` ${JSON.stringify(constraints)}`
  const name = limiterName(inherited, `${String(counted)} ${url}${version}`)
  try {
    return createHook(withInherited(options, inherited, name))
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error
    const message = `Route ${routeName(method, url)} has a wrong \`config.rateLimit\`. ${reasonOf(error)}`
    throw new SluiceError(error.code, message, { cause: error })
  }
}

export type GivenOptions = Readonly<Record<string, unknown>>

export interface Inheritable {
  readonly hook: Hook
  readonly options: GivenOptions
}

/** Options that are never inherited: what a limiter counts, and its name. */
const NEVER = ['limits', 'limiter', 'rules', 'name', 'shared']
/** Options that belong together: a route with one of them inherits none of the group. */
const GROUPS: readonly (readonly string[])[] = [
  ['onDenied', 'message', 'statusCode'],
  ['count', 'refundWhen'],
  HEADER_OPTIONS,
]

/**
 * Adds the options of a scope that a route does not have itself, except what is counted and its name. A `limiter` and `rules` have their own keys, costs and
 * store.
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

/**
 * Returns the name of a limiter in the store of the scope around it: the same in each process.
 * @param place a route or the prefix of a scope
 */
export function limiterName(scope: GivenOptions, place: string): string {
  const name = `${(scope['name'] ?? 'default') as string} ${place}`
  return name.replace(/[^\x20-\x7e]/gu, (character) => `u+${character.codePointAt(0)!.toString(16)}`)
}

/** Returns true for a plain object. Other values, such as a request or an app, are reported by the check of options. */
function isOptions(own: unknown): own is GivenOptions {
  return (
    typeof own === 'object' && own !== null && [Object.prototype, null].includes(Object.getPrototypeOf(own) as null)
  )
}

/** The hooks at which a request can be limited, with the arguments `(request, reply, done)`. */
const HOOKS = ['onRequest', 'preValidation', 'preHandler']
/** All other hooks of a route. They have other arguments, or run after the response has begun. */
const OTHER_HOOKS = ['preParsing', 'preSerialization', 'onSend', 'onResponse', 'onError', 'onTimeout', 'onRequestAbort']

const methods = new WeakSet<object>()
const hooks = new WeakSet<object>()

/**
 * Creates the method `app.rateLimit`. The method throws `NOT_APPLICABLE` if it is called without its app, and as `create` does.
 * @param create creates the limit of a route from its options. Returns `undefined` outside of every limited scope
 */
export function routeHook(
  create: (scope: FastifyInstance, options: object) => LimitHook | undefined,
): (this: FastifyInstance, options: object) => LimitHook {
  function rateLimit(this: FastifyInstance | undefined, options: object): LimitHook {
    if (typeof this?.addHook !== 'function') throw calledWithoutApp()
    if (typeof options !== 'object' || options === null)
      refuse('app.rateLimit', 'options such as { limits: perMinute(5) }', options)
    if ('hook' in options) refuse('hook', 'nothing, since the place of the hook says when it limits', options.hook)
    const limit = create(this, options)
    if (limit === undefined) throw calledWithoutApp()
    const hook: LimitHook = function limitRoute(request, reply, done) {
      if (typeof done !== 'function' || reply.raw.writableEnded) throw hookTooLate('A hook')
      limit(request, reply, done)
    }
    hooks.add(hook)
    return hook
  }
  methods.add(rateLimit)
  return rateLimit
}

/** Throws `NOT_APPLICABLE` if a route has a hook of `app.rateLimit` at a point where it cannot limit, or the method itself as a hook. */
export function checkRouteHooks(route: RouteOptions): void {
  const given = route as unknown as Readonly<Record<string, unknown>>
  const owner = `Route ${routeName(route.method, route.url)}`
  for (const name of [...HOOKS, ...OTHER_HOOKS]) {
    const used = [given[name]].flat().filter((each) => typeof each === 'function')
    if (used.some((each) => methods.has(each)))
      throw misuse(
        `${owner} has \`app.rateLimit\` itself as \`${name}\`. Call it: \`${name}: app.rateLimit({ limits })\`.`,
      )
    if (OTHER_HOOKS.includes(name) && used.some((each) => hooks.has(each)))
      throw hookTooLate(`${owner}, as \`${name}\`,`)
  }
}

/** Returns the name of a route in messages, such as `GET "/users/:id"`. */
export function routeName(method: unknown, url: string | undefined): string {
  return `${String(method)} ${JSON.stringify(url)}`
}

/** Returns the error for a limit in a place where it has no effect, or another effect than expected. */
export function misuse(message: string): SluiceError {
  return new SluiceError('NOT_APPLICABLE', message)
}

function calledWithoutApp(): SluiceError {
  return misuse(
    'app.rateLimit is a method of an app with the plugin: write `app.rateLimit({ … })` after `await app.register(rateLimit, …)`.',
  )
}

function hookTooLate(place: string): SluiceError {
  return misuse(
    `${place} uses \`app.rateLimit(…)\`, but it must run before the handler. Use it as \`onRequest\`, ` +
      '`preValidation` or `preHandler`.',
  )
}
