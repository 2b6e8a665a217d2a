import type { Decision } from '../limiter/decision.ts'
import { roundedDuration } from '../util/duration.ts'
import { oneOf } from '../util/validate.ts'

/** The APIs for which `denialBody` makes a body. */
export type ModelApi = 'openai' | 'anthropic'

const APIS: readonly ModelApi[] = ['openai', 'anthropic']

/**
 * Returns a value for the option `message`: the body of a denial, in the format in which clients of this API expect an error. Throws
 * `INVALID_OPTION` for an unknown API.
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
