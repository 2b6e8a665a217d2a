import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { rateLimit as express } from '../../adapters/express/index.ts'
import { rateLimit as koa } from '../../adapters/koa/index.ts'
import { denyCache, guard, memoryStore, perMinute, SluiceError, type Store } from '../../src/index.ts'
import { rowStore } from '../../src/extend.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import { warningsOfEachTest } from '../support/guarded.ts'
import { connect, server, until } from '../support/redis-tests.ts'

const warnings = warningsOfEachTest()

let names = 0
/** What every adapter does with a store. */
function mount(store: Store): void {
  express({ name: `limit ${names++}`, keyer: () => 'ann', limits: perMinute(5), store })
}

/** The warnings about set-ups, once those of this turn are emitted. */
async function problems(): Promise<string[]> {
  await pause(50)
  return warnings.messages.filter((_, i) => warnings.codes[i] === 'SLUICE_SETUP')
}

function checked(ready: () => Promise<void>): Store & { readonly calls: number } {
  let calls = 0
  const store = rowStore({
    transact: () => {
      throw new Error('not asked')
    },
    async ready() {
      calls++
      return ready()
    },
  })
  return Object.defineProperty(store, 'calls', { get: () => calls }) as Store & { readonly calls: number }
}

describe('the set-up of a store is checked by adapters', () => {
  it('once for each store, and a problem is one warning', async () => {
    const store = checked(async () => {
      throw new SluiceError('STORE_SETUP', 'Run: GRANT')
    }) as Parameters<typeof guard>[0] & { readonly calls: number }
    mount(store)
    mount(store)
    mount(guard(store) as Store)
    mount(denyCache(store) as Store)
    koa({ name: 'koa', keyer: () => 'ann', limits: perMinute(5), store })
    expect(await problems()).toEqual(['Run: GRANT (sluice/docs/reference/errors-and-warnings.md#sluice_setup)'])
    expect(store.calls).toBe(1)
  })

  const fails = (error: Error) => (): never => {
    throw error
  }

  it.each<[string, () => Promise<void>]>([
    ['a store that is ready', async () => undefined],
    ['a store that does not answer', async () => fails(new SluiceError('STORE_FAILED', 'away'))()],
    ['a store with another error', async () => fails(new Error('mistake'))()],
    ['a store that throws at once', fails(new Error('mistake'))],
  ])('%s causes no warning, and no unhandled rejection', async (_, ready) => {
    const store = checked(ready)
    mount(store)
    expect(await problems()).toEqual([])
    expect(store.calls).toBe(1)
  })

  it('a store without set-up is not checked', async () => {
    mount(memoryStore())
    expect(await problems()).toEqual([])
  })
})

it('Redis: too few rights are a warning with the command', async () => {
  const { port } = await server()
  await connect(port).call('ACL', 'SETUSER', 'few', 'on', '>secret', '~sluice:*', '+ping', '+eval', '+evalsha')
  mount(redisStore(connect(port, { username: 'few', password: 'secret', enableReadyCheck: false })))
  await until(async () => warnings.codes.includes('SLUICE_SETUP'))
  expect((await problems())[0]).toContain('ACL SETUSER')
  mount(redisStore(connect(port)))
  expect(await problems()).toHaveLength(1)
})
