import type { Limiter } from '../../limiter/contract.ts'
import type { Decision } from '../../limiter/decision.ts'
import { isCharge, type LimitStatus } from '../../stores/store.ts'
import type { HttpAdapter } from '../adapter.ts'
import { checksOf } from '../checking.ts'
import { exposedIn, type HeaderPart, type Pass, passRecorder } from '../passes.ts'
import { withNames } from './cors.ts'
import type { HeaderOptions } from './options.ts'
import { DEFAULT_CONFIG, type HeaderConfig, headerConfig, headerWriter } from './styles.ts'
import type { StandardFormat } from './types.ts'

/**
 * Writes the headers of a decision, merged with the headers of earlier request limiters. Writes nothing without a response.
 */
export type StackedHeaderWriter<Response> = (
  decision: Decision,
  earlier: Pass | undefined,
  response: Response | undefined,
  request: object,
) => void

export type ResponseHeaders<Response> = Pick<
  HttpAdapter<never, Response, never, never>,
  'getHeader' | 'setHeader' | 'removeHeader'
>

/** Creates the header writer of a request limiter. Throws `INVALID_OPTION`, `UNKNOWN_OPTION`. */
export function stackedHeaderWriter<Response>(
  options: HeaderOptions,
  adapter: ResponseHeaders<Response>,
  limiter: Limiter<never>,
): StackedHeaderWriter<Response> {
  const config = headerConfig(options)
  const recordPass = passRecorder(limiter, config)
  // `config.write` is not used: all request limiters without header options share it, and a writer keeps its latest list of policies.
  const write = headerWriter(config)
  // There is one function for all requests. Headers are written synchronously, so no other response can come between.
  let current: Response
  const set = (name: string, value: string): void => adapter.setHeader(current, name, value)
  const remove = (name: string): void => adapter.removeHeader?.(current, name)

  /** Adds names to `Access-Control-Expose-Headers` of a response with CORS headers. */
  function writeExposed(response: Response, names: () => readonly string[]): void {
    const existing = adapter.getHeader(response, 'access-control-expose-headers') || undefined
    const cors = existing ?? adapter.getHeader(response, 'access-control-allow-origin')
    if (cors === undefined || cors === '') return
    adapter.setHeader(response, 'Access-Control-Expose-Headers', withNames(String(existing ?? ''), names()))
  }

  function writeMerged({ shown, parts }: Pass, latest: Decision, response: Response): void {
    current = response
    const now = parts.some(({ config: { needsTime } }) => needsTime) ? timeOf(latest) : 0
    const formatOf = parts.every((part) => part.config === config) ? undefined : formatsOf(parts)
    // Earlier headers may be in another style. They describe an admitted request, so a denial replaces them.
    if (!latest.allowed) for (const each of otherConfigs(parts, config)) each.write(shown, now, set, formatOf, remove)
    write(shown, now, set, formatOf, remove)
  }

  return function writeHeaders(decision, earlier, response, request) {
    if (earlier !== undefined) checksOf(request)?.warnOfClashes(write, config, earlier.parts)
    const pass = recordPass(earlier, decision)
    if (response === undefined) return
    writeExposed(response, () => exposedIn(pass))
    if (config.styles.length > 0) writeMerged(pass, decision, response)
  }
}

/** Returns a function from a status to the format of its request limiter. */
function formatsOf(parts: readonly HeaderPart[]): (status: LimitStatus) => StandardFormat {
  return function formatOf(status) {
    const part = parts.find(({ decision }) => decision.limits.includes(status))
    return (part?.config ?? DEFAULT_CONFIG).format
  }
}

function otherConfigs(parts: readonly HeaderPart[], own: HeaderConfig): readonly HeaderConfig[] {
  return [...new Set(parts.map(({ config }) => config))].filter((config) => config !== own)
}

/** Returns epoch milliseconds by the clock of the store that decided, or by `Date` if the user has given no clock. */
export function timeOf({ limits: [first] }: Decision): number {
  const clock = isCharge(first) ? first.policy.store.clock : undefined
  return clock?.given === true ? clock.now() : Date.now()
}
