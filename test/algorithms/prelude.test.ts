import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import arithmetic from '../../src/algorithms/arithmetic.lua?raw'
import { LARGEST, rescale } from '../../src/algorithms/arithmetic.ts'
import type { LimitParameters } from '../../src/algorithms/algorithm.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'

const micro: LimitParameters = { perMs: 1000, strict: 0 }
const milli: LimitParameters = { perMs: 1, strict: 0 }

describe('the Lua prelude', () => {
  let server: RedisServer
  let redis: Redis
  beforeAll(async () => {
    server = await startRedis()
    redis = new Redis(server.port)
  })
  afterAll(async () => {
    redis.disconnect()
    await server.stop()
  })

  async function lua(expression: string): Promise<number> {
    return Number(await redis.eval(`${arithmetic}\nreturn string.format('%.17g', ${expression})`, 0))
  }

  it('has the same largest number', async () => expect(await lua('LARGEST')).toBe(LARGEST))

  it('rescales ticks as TypeScript does', async () => {
    for (const ticks of [0, 1, 999, 1000, 1001, 1_767_225_600_000_999, -1, -999, -1000, -1001]) {
      for (const [from, to] of [
        [micro, milli],
        [milli, micro],
        [micro, micro],
      ] as const) {
        const call = `rescale(${ticks}, { perMs = ${from.perMs} }, { perMs = ${to.perMs} })`
        expect(await lua(call)).toBe(rescale(ticks, from, to))
      }
    }
  })

  it('rounds a coarser tick down, also before the epoch', () => {
    expect(rescale(1999, micro, milli)).toBe(1)
    expect(rescale(-1, micro, milli)).toBe(-1)
    expect(rescale(7, milli, micro)).toBe(7000)
  })
})
