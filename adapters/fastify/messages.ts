import { SluiceError } from '../../src/util/errors.ts'

/** A route as error messages name it, such as `GET "/users/:id"`. */
export function nameOf(method: unknown, url: string | undefined): string {
  return `${String(method)} ${JSON.stringify(url)}`
}

export function wrongConfig(route: string, cause: SluiceError): SluiceError {
  return new SluiceError(cause.code, `Route ${route} has a wrong \`config.rateLimit\`. ${cause.message}`, { cause })
}

export function calledDirectly(): SluiceError {
  return new SluiceError(
    'NOT_APPLICABLE',
    'rateLimit is a plugin for Fastify to call: write `app.register(rateLimit, { … })`, not `app.register(rateLimit({ … }))`.',
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
    `Route ${route} has \`config.rateLimit\`, but rateLimit is not registered in its scope or one around it. ` +
      'Register it on the app: `await app.register(rateLimit, options)`.',
  )
}

export function coversNothing(prefix: string): SluiceError {
  return new SluiceError(
    'NOT_APPLICABLE',
    `rateLimit is registered in a scope (${JSON.stringify(prefix || '/')}) that has no routes, so it limits nothing. ` +
      'Register it where the routes are, or on the app.',
  )
}

export function seenTooLate(route: string): SluiceError {
  return new SluiceError(
    'NOT_APPLICABLE',
    `The \`config.rateLimit\` of route ${route} asks for another \`hook\` than its scope, and the route was ` +
      "declared unseen. Import 'sluice/fastify' before the app is made, or declare the route after `await app.register(rateLimit)`.",
  )
}
