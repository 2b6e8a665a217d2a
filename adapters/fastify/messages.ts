import { reasonOf, SluiceError } from '../../src/util/errors.ts'
import { warn } from '../../src/util/warn.ts'

/** Returns the name of a route in messages, such as `GET "/users/:id"`. */
export function routeName(method: unknown, url: string | undefined): string {
  return `${String(method)} ${JSON.stringify(url)}`
}

export function wrongConfig(route: string, cause: SluiceError): SluiceError {
  return new SluiceError(cause.code, `Route ${route} has a wrong \`config.rateLimit\`. ${reasonOf(cause)}`, { cause })
}

export function calledDirectly(): SluiceError {
  return new SluiceError(
    'NOT_APPLICABLE',
    'rateLimit is a plugin that Fastify calls: write `app.register(rateLimit, { … })`, not `app.register(rateLimit({ … }))`.',
  )
}

export function registeredTwice(prefix: string, hook: string): SluiceError {
  return new SluiceError(
    'NOT_APPLICABLE',
    `rateLimit is registered twice, at ${hook}, in the scope ${JSON.stringify(prefix || '/')}, and would count every ` +
      'request twice. Register it once with all `limits`, or with a `stack` of limiters.',
  )
}

export function outOfScope(route: string): SluiceError {
  return new SluiceError(
    'NOT_APPLICABLE',
    `Route ${route} has \`config.rateLimit\`, but rateLimit is not registered in its scope or a parent scope. ` +
      'Register it on the app: `await app.register(rateLimit, options)`.',
  )
}

/** @param owner a route such as `Route GET "/users/:id"`, or the 404 handler */
export function misplacedOptions(owner: string): SluiceError {
  return new SluiceError(
    'NOT_APPLICABLE',
    `${owner} has an option \`rateLimit\`. It has no effect there. Write \`config: { rateLimit: … }\`.`,
  )
}

export function calledWithoutApp(): SluiceError {
  return new SluiceError(
    'NOT_APPLICABLE',
    'app.rateLimit is a method of an app with the plugin: write `app.rateLimit({ … })` after `await app.register(rateLimit, …)`.',
  )
}

export function notCalled(route: string, hook: string): SluiceError {
  return new SluiceError(
    'NOT_APPLICABLE',
    `Route ${route} has \`app.rateLimit\` itself as \`${hook}\`. Call it: \`${hook}: app.rateLimit({ limits })\`.`,
  )
}

export function hookTooLate(place: string): SluiceError {
  return new SluiceError(
    'NOT_APPLICABLE',
    `${place} uses \`app.rateLimit(…)\`, but it must run before the handler. Use it as \`onRequest\`, ` +
      '`preValidation` or `preHandler`.',
  )
}

export function limitsNothing(prefix: string): SluiceError {
  return new SluiceError(
    'NOT_APPLICABLE',
    `rateLimit is registered in a scope (${JSON.stringify(prefix || '/')}) that has no routes, so it limits nothing. ` +
      'Register it where the routes are, or on the app.',
  )
}

export function declaredTooEarly(route: string): SluiceError {
  return new SluiceError(
    'NOT_APPLICABLE',
    `The \`config.rateLimit\` of route ${route} has another \`hook\` than its scope, but the route was declared before ` +
      "sluice was loaded. Import 'sluice/fastify' before the app is created, or declare the route after " +
      '`await app.register(rateLimit)`.',
  )
}

export function warnOfEarlyRoute(): void {
  warn(
    'SLUICE_EARLY_ROUTE',
    "A limit with `hook: 'preHandler'` runs before the preHandler hooks of a route or a 404 handler that was declared before " +
      "sluice was loaded. A keyer cannot use what these hooks set. Import 'sluice/fastify' before the app is created.",
  )
}
