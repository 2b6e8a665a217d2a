/**
 * Limits over HTTP, for services in other languages. `npx sluice serve rules.yaml` is the same service as a program.
 *
 * @example
 * import { rulesFromFile } from 'sluice/rules'
 * import { serveLimits } from 'sluice/service'
 *
 * const rules = await rulesFromFile('rules.yaml')
 * export default { fetch: serveLimits({ rules, token: process.env.SLUICE_TOKEN! }) }
 * @module
 */

import { clientGone } from '../http/response/web.ts'
import { sleep } from '../util/clock.ts'
import { ClientGone, Service, type ServiceOptions, type ServiceRequest, type ServiceSource } from './service.ts'

export type { ServiceOptions, ServiceSource }

/** A handler of web-standard requests. */
export interface LimitsService {
  (request: Request): Promise<Response>
  /** Stops counting for `/metrics`. Later requests get a 503. Rules and stores stay open. */
  close(): void
}

/** The longest time for a body, in milliseconds. */
const PATIENCE = 10_000

/**
 * Decides over HTTP, for services in other languages and for proxies.
 *
 * - `POST /decide` with `{ input: { ip, method, path, headers?, attributes? } }` for rules, or `{ limiter, key, cost? }` for limiters. The answer
 *   has status 200 or 429. Its headers, and the body of a denial, are the same as from an adapter.
 * - `/check` and all paths below it, for rules: a proxy asks about one of its requests. See the guides for nginx and Envoy.
 * - `GET /metrics` in the text format of Prometheus, and `GET /health`, which needs no token.
 *
 * A body has at most 64 kB, and must arrive within ten seconds. An invalid message is answered with status 400 and the code `INVALID_MESSAGE`.
 * Slots of `concurrent` are held until they expire, because the service does not know when a request ends. The service waits for the delay of a
 * `leakyBucket` before it answers.
 *
 * Throws `INVALID_OPTION`, also without a `token`, `UNKNOWN_OPTION`, and the errors of `createLimiter`.
 * @example Bun.serve({ port: 8080, fetch: serveLimits({ rules: await rulesFromFile('rules.yaml'), token: process.env.SLUICE_TOKEN! }) })
 * @example serveLimits({ limiters: [createLimiter({ name: 'mails', keyer: String, limits: perMinute(100) })], token: false })
 */
export function serveLimits(options: ServiceSource & ServiceOptions): LimitsService {
  const service = new Service(options)
  async function answerRequest(request: Request): Promise<Response> {
    try {
      const { status, headers, body } = await service.answer(asked(request))
      return new Response(body === '' ? null : body, { status, headers })
    } catch (error) {
      if (error instanceof ClientGone) return clientGone()
      throw error
    }
  }
  return Object.assign(answerRequest, { close: () => service.close() })
}

function asked(request: Request): ServiceRequest {
  const { pathname, search } = new URL(request.url)
  return {
    method: request.method,
    target: pathname + search,
    headers: Object.fromEntries(request.headers),
    body: (most) => bodyOf(request, most),
  }
}

/** Reads a body of at most `most` bytes. */
async function bodyOf({ body }: Request, most: number): Promise<Uint8Array | 408 | 413> {
  if (body === null) return new Uint8Array()
  const reader = (body as ReadableStream<Uint8Array>).getReader()
  const whole = new Uint8Array(most)
  let length = 0
  let isLate = false
  const stop = sleep(PATIENCE, () => {
    isLate = true
    void reader.cancel()
  })
  try {
    for (;;) {
      const { done, value } = await reader.read().catch(hungUp)
      if (isLate) return 408
      if (done) return whole.subarray(0, length)
      if (length + value.length > most) {
        void reader.cancel()
        return 413
      }
      whole.set(value, length)
      length += value.length
    }
  } finally {
    stop()
  }
}

function hungUp(): never {
  throw new ClientGone()
}
