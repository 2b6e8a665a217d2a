import type { Decision } from '../limiter/decision.ts'
import { roundedDuration } from '../util/duration.ts'
import { oneOf } from '../util/validate.ts'

/** The APIs whose clients a gateway serves. */
export type ModelApi = 'openai' | 'anthropic'

const APIS: readonly ModelApi[] = ['openai', 'anthropic']

/**
 * Returns the option `message` for clients of an API: the body of a denial in which they look for an error. Throws `INVALID_OPTION` for another
 * API.
 * @example rateLimit({ keyer: byHeader('authorization'), limits: perMinute(60), headers: 'openai', message: denialBody('openai') })
 */
export function denialBody(api: ModelApi): (decision: Decision) => Readonly<Record<string, unknown>> {
  oneOf('denialBody', api, APIS)
  return function body({ binding, retryAfter }) {
    const advice =
      retryAfter === Infinity
        ? 'Send a smaller request.'
        : `Try again in ${roundedDuration(Math.ceil(retryAfter / 1000))}.`
    const message = `Rate limit reached: ${binding?.limit.name ?? 'requests'}. ${advice}`
    if (api === 'anthropic') return { type: 'error', error: { type: 'rate_limit_error', message } }
    return { error: { message, type: 'rate_limit_error', param: null, code: 'rate_limit_exceeded' } }
  }
}
