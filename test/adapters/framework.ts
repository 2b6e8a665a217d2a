import { once } from 'node:events'
import type { Server as HttpServer } from 'node:http'
import type { AddressInfo, Server } from 'node:net'
import { fixedWindow } from '../../src/engine/factories.ts'
import type { Limit } from '../../src/engine/limit.ts'
import type { Decision } from '../../src/limiter/decision.ts'
import { everyone } from '../../src/limiter/keyers.ts'
import { createLimiter, type Limiter } from '../../src/limiter/limiter.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import type { AdapterHarness, AnyOptions, AppSetup, Served } from '../../src/testing.ts'
import { afterTest } from '../support/after-test.ts'

/** A harness for the conformance suite. */
export interface NamedHarness extends AdapterHarness {
  readonly name: string
}

/** Returns options with one quota for everyone. */
export const timesOf = <RateLimitOptions = AnyOptions>(
  quota: number,
  options: Partial<RateLimitOptions> = {},
): RateLimitOptions =>
  ({ keyer: everyone, limits: fixedWindow({ quota, window: '1h' }), ...options }) as RateLimitOptions

/** Returns a limiter of everyone, in memory. */
export const limiterOf = (...limits: readonly Limit[]): Limiter<unknown, Decision> =>
  createLimiter<unknown>({ keyer: everyone, limits, store: memoryStore() }) as Limiter<unknown, Decision>

/**
 * Asks for several paths, such as `'/'` or `'HEAD /'`. Returns what `left` says of each, with spaces between them; '-' for nothing.
 */
export async function leftOf(
  requests: readonly string[],
  left: (path: string, method?: string) => Promise<string>,
): Promise<string> {
  const found: string[] = []
  for (const each of requests) {
    const [path, method] = each.split(' ').toReversed()
    found.push((await left(path!, method)) || '-')
  }
  return found.join(' ')
}

/** Returns the units of the first limit that are used. */
export const usedBy = (limiter: Limiter<unknown, Decision>): number =>
  limiter.peek(undefined, { cost: 0 }).limits[0]!.used

/** Starts a server on a free port, until the end of the test. */
export async function listen(server: Server | HttpServer): Promise<{ readonly url: string; readonly port: number }> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  afterTest(() => {
    if ('closeAllConnections' in server) server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, port }
}

/** Serves an app until the end of the test. Its handler answers how often it has run, unless there is another one. */
export async function serveApp(
  harness: NamedHarness,
  setup: Partial<AppSetup>,
): Promise<Served & { readonly ran: () => number }> {
  let ran = 0
  const server = await harness.serve({ limits: [], routes: [], handler: () => ({ text: String(++ran) }), ...setup })
  afterTest(() => server.close())
  return { ...server, ran: () => ran }
}
