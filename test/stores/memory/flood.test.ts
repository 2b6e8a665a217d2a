import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import express from 'express'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { byIP, rateLimit } from '../../../adapters/express/index.ts'
import { memoryStore, perMinute } from '../../../src/index.ts'
import { ask, type Served, serve } from '../../support/http.ts'

interface Memory {
  readonly rss: number
  /** Bytes in the heap and in its buffers. */
  readonly held: number
}

interface Flood {
  readonly before: Memory
  /** After as many keys as the store holds, five times as many, ten times as many. */
  readonly marks: readonly [Memory, Memory, Memory]
  readonly after: Memory
  readonly early: number
  readonly full: number
  readonly admitted: number
}

const MEGABYTE = 2 ** 20

it(
  'three million keys leave a store of 300,000 as large as it was, and let no denied key in',
  { timeout: 300_000 },
  async () => {
    const script = fileURLToPath(new URL('../../support/flood.mjs', import.meta.url))
    const { stdout } = await promisify(execFile)(process.execPath, ['--expose-gc', '--max-old-space-size=192', script])
    const { before, marks, after, early, full, admitted } = JSON.parse(stdout) as Flood
    expect(early).toBe(0)
    expect(full).toBe(1)
    // Each key that found room was admitted; the rest shared what the counters let through.
    expect(admitted).toBeGreaterThanOrEqual(300_000 - 1000)
    expect(marks[2].held - marks[1].held).toBeLessThan(2 * MEGABYTE)
    expect(marks[2].rss - marks[1].rss).toBeLessThan(60 * MEGABYTE)
    expect(after.held - before.held).toBeLessThan(2 * MEGABYTE)
  },
)

let server: Served
beforeAll(async () => {
  const app = express().set('trust proxy', 1)
  const store = memoryStore({ maxKeys: 200, onFull: () => undefined })
  app.use(rateLimit({ keyer: byIP, limits: perMinute(3), store }))
  app.use((_, response) => response.end())
  server = await serve(app)
})
afterAll(() => server.close())

it('a flood of spoofed addresses through a trusted proxy lets no denied client in', async () => {
  const from = async (address: string): Promise<number> =>
    (await ask(server, '/', { headers: { 'x-forwarded-for': address } })).status
  const victim = '203.0.113.7'
  for (let n = 0; n < 3; n++) expect(await from(victim)).toBe(200)
  expect(await from(victim)).toBe(429)
  const statuses = new Set<number>()
  for (let i = 0; i < 2000; i += 50) {
    const batch = Array.from({ length: 50 }, (_, n) => from(`198.18.${(i + n) >> 8}.${(i + n) & 255}`))
    for (const status of await Promise.all(batch)) statuses.add(status)
    expect(await from(victim)).toBe(429)
  }
  expect(statuses).toEqual(new Set([200, 429]))
})
