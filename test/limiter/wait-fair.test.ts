import { describe, expect, it } from 'vitest'
import { createLimiter, type Decision, fixedWindow, gcra, type Limiter, memoryStore, stack } from '../../src/index.ts'
import { type VirtualClock, virtualClock } from '../../src/testing/virtual-clock.ts'

/** Lets all promises settle. */
const settled = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve))

/** Moves a clock in small steps, and lets everything that is due happen in each of them. */
async function pass(clock: VirtualClock, ms: number, step = 10): Promise<void> {
  for (let passed = 0; passed < ms; passed += step) {
    clock.advance(step)
    await settled()
  }
}

/** A limit for each tenant, and one for all of them. */
function limitersOf(clock: VirtualClock): { tenant: Limiter<string, Decision>; site: Limiter<string, Decision> } {
  const store = memoryStore({ clock })
  return {
    tenant: createLimiter({
      name: 'tenant',
      keyer: (input: string) => input,
      limits: fixedWindow({ quota: 20, window: '1h' }),
      store,
    }),
    site: createLimiter({
      name: 'site',
      keyer: () => 'all',
      limits: gcra({ quota: 1000, window: '1s', burst: 20 }),
      store,
    }),
  }
}

describe('a tenant at its own limit', () => {
  it.each(['tenant first', 'site first'])('delays no other tenant under a shared limit, %s', async (order) => {
    const clock = virtualClock()
    const { tenant, site } = limitersOf(clock)
    const both = order === 'tenant first' ? stack(tenant, site) : stack(site, tenant)
    tenant.consume('busy', { cost: 20 })
    const blocked = Array.from({ length: 50 }, () => both.wait('busy').catch(() => undefined))
    await settled()
    const waits: Promise<Decision | undefined>[] = []
    for (let round = 0; round < 10; round++) {
      for (let i = 0; i < 20; i++) {
        waits.push(both.wait(`tenant ${i}`, { maxWait: '2s' }).catch(() => undefined))
      }
      await pass(clock, 100)
    }
    await pass(clock, 2100)
    const admitted = (await Promise.all(waits)).filter((each) => each?.allowed)
    expect(admitted).toHaveLength(200)
    await pass(clock, 3 * 3_600_000, 60_000)
    expect((await Promise.all(blocked)).every((each) => each?.allowed)).toBe(true)
  })
})

describe('turns in a shared line', () => {
  it('go round although one tenant has many users', async () => {
    const clock = virtualClock()
    const store = memoryStore({ clock })
    const parts = ['tenant', 'user', 'site'].map((name, i) =>
      createLimiter({
        name,
        keyer: (input: string) => (i === 2 ? 'all' : i === 1 ? input : input.split('/')[0]!),
        limits: i === 2 ? gcra({ quota: 10, window: '1s', burst: 1 }) : gcra({ quota: 1000, window: '1s' }),
        store,
      }),
    )
    const all = stack(...parts)
    all.consume('ada/0')
    const served: string[] = []
    const enter = (key: string): void => void all.wait(key).then(() => served.push(key.split('/')[0]!))
    for (let i = 0; i < 30; i++) enter(`ada/${i}`)
    await settled()
    for (let i = 0; i < 3; i++) enter(`bob/${i}`)
    await pass(clock, 1000, 20)
    expect(served.slice(0, 6)).toEqual(['ada', 'bob', 'ada', 'bob', 'ada', 'bob'])
  })
})
