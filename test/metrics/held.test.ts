import { once } from 'node:events'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it } from 'vitest'
import { rateLimit } from '../../adapters/node/index.ts'
import { everyone, leakyBucket } from '../../src/index.ts'
import { afterTest } from '../support/after-test.ts'
import { collected, lines } from './metrics.ts'

it('sluice_held_requests counts requests that an adapter delays, until the client is gone', async () => {
  const registry = collected()
  const limits = leakyBucket({ quota: 1, window: '1m', capacity: 5 })
  const limit = rateLimit({ name: 'slow', keyer: everyone, limits })
  const server = createServer(limit((_request, response) => response.end('done'))).listen(0, '127.0.0.1')
  afterTest(() => server.close())
  await once(server, 'listening')
  const options = { host: '127.0.0.1', port: (server.address() as AddressInfo).port, agent: false }
  const held = async (): Promise<string | undefined> => (await lines(registry, 'sluice_held_requests{'))[0]

  const [first] = (await once(request(options).end(), 'response')) as [NodeJS.ReadableStream]
  first.resume()
  const others = [1, 2].map(() =>
    request(options)
      .on('error', () => undefined)
      .end(),
  )
  await expect.poll(held, { timeout: 10_000 }).toBe('sluice_held_requests{limiter="slow"} 2')
  others[0]!.destroy()
  await expect.poll(held, { timeout: 10_000 }).toBe('sluice_held_requests{limiter="slow"} 1')
  others[1]!.destroy()
  await expect.poll(held, { timeout: 10_000 }).toBe('sluice_held_requests{limiter="slow"} 0')
})
