import { type Duration, warnIfShort } from '../engine/limit.ts'
import type { Limiter } from '../limiter/contract.ts'
import type { Decision } from '../limiter/decision.ts'
import { denialOf } from '../limiter/waiting.ts'
import { SluiceError } from '../util/errors.ts'
import { knownOptions, milliseconds, refuse, wholeNumber } from '../util/validate.ts'
import type { HttpAdapter } from './adapter.ts'

/** The options of requests that wait instead of being denied. */
export interface QueueOptions {
  /** The most requests that wait at a time with one key of the first limiter: a whole number from 1. Default 100. */
  readonly max?: number
  /**
   * The most requests of all keys that wait at a time on the store: a whole number from 1. If there are more, the newest request of the key with the most
   * waiting requests is denied. Default 1,000.
   */
  readonly maxTotal?: number
  /** The longest wait: milliseconds, or a text such as `'5s'`. Default `'5s'`. */
  readonly maxWait?: Duration
}

/** Returns the options with their defaults. Throws `INVALID_OPTION` or `UNKNOWN_OPTION`. */
export function checkedQueue(given: QueueOptions): Required<QueueOptions> {
  if (typeof given !== 'object' || given === null) refuse('queue', "options such as { max: 100, maxWait: '5s' }", given)
  given = knownOptions('queue', given, ['max', 'maxTotal', 'maxWait'])
  const { max = 100, maxTotal = 1000, maxWait = '5s' } = given
  warnIfShort('queue.maxWait', maxWait)
  return {
    max: wholeNumber('queue.max', max),
    maxTotal: wholeNumber('queue.maxTotal', maxTotal),
    maxWait: milliseconds('queue.maxWait', maxWait),
  }
}

/** Decides about a request when it is its turn. Resolves with `undefined` if the client disconnects before that. */
export async function consumeInTurn<Request, Response>(
  limiter: Limiter<Request>,
  { max, maxTotal, maxWait }: Required<QueueOptions>,
  request: Request,
  adapter: Pick<HttpAdapter<never, Response, never, never>, 'onEnd'>,
  response: Response,
): Promise<Decision | undefined> {
  const gone = new AbortController()
  const stop = adapter.onEnd(response, () => gone.abort())
  const { signal } = gone
  try {
    return await limiter.wait(request, { maxWait, maxPerKey: max, maxQueue: maxTotal, signal })
  } catch (error) {
    if (signal.aborted) return undefined
    const denial = denialOf(error)
    if (denial !== undefined) return denial
    // If the queue is full, the request is decided as without a queue.
    if (error instanceof SluiceError && (error.code === 'WAIT_QUEUE_FULL' || error.code === 'WAIT_TOO_LONG'))
      return await limiter.consume(request)
    throw error
  } finally {
    stop()
  }
}
