import { once } from 'node:events'
import { request } from 'node:http'
import { expect, it } from 'vitest'
import { rateLimit } from '../../adapters/node/index.ts'
import { everyone, leakyBucket } from '../../src/index.ts'
import { serveForTest } from '../support/http.ts'
import { collected, lines } from './metrics.ts'

it('sluice_held_requests counts requests that an adapter delays, until the client is gone', async () => {
  const registry = collected()
  const limits = leakyBucket({ quota: 1, window: '1m', capacity: 5 })
  const limit = rateLimit({ name: 'slow', keyer: everyone, limits })
  const { url } = await serveForTest(limit((_request, response) => response.end('done')))
  const held = async (): Promise<string | undefined> => (await lines(registry, 'sluice_held_requests{'))[0]

  const [first] = (await once(request(url, { agent: false }).end(), 'response')) as [NodeJS.ReadableStream]
  first.resume()
  const others = [1, 2].map(() =>
    request(url, { agent: false })
      .on('error', () => undefined)
      .end(),
  )
  await expect.poll(held, { timeout: 10_000 }).toBe('sluice_held_requests{limiter="slow"} 2')
  others[0]!.destroy()
  await expect.poll(held, { timeout: 10_000 }).toBe('sluice_held_requests{limiter="slow"} 1')
  others[1]!.destroy()
  await expect.poll(held, { timeout: 10_000 }).toBe('sluice_held_requests{limiter="slow"} 0')
})
