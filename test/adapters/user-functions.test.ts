import http from 'node:http'
import { once } from 'node:events'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { rateLimit as forNode } from '../../adapters/node/index.ts'
import { waitingRequests } from '../../src/limiter/waiting.ts'
import { everyone, keyers } from '../../src/limiter/keyers.ts'
import { createLimiter, stack } from '../../src/limiter/limiter.ts'
import { fixedWindow, leakyBucket, perHour } from '../../src/engine/factories.ts'
import { createRules } from '../../src/rules/rules.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import type { AsyncStore } from '../../src/stores/store.ts'
import type { AnyOptions, Served } from '../../src/testing.ts'
import { ask, dial, serveForTest, until, warningsOf } from '../support/http.ts'
import { methodStore } from '../support/method-store.ts'
import { FAILURES, turns, unhandled } from '../support/unhandled.ts'
import { listen, serveApp } from './framework.ts'
import { onlyTwoFrameworks } from './frameworks.ts'

afterEach(() => void vi.restoreAllMocks())

type Fails = () => never

const LIMIT = fixedWindow({ quota: 1, window: '1h' })
const rejects = FAILURES['rejects']!
const pending = (): Promise<never> => new Promise(() => undefined)

function failingStore(fails: Fails): AsyncStore {
  return methodStore({ take: fails, adjust: fails, lock: fails, forget: fails })
}

/** Options with a function that fails before a request is admitted. */
const before: Readonly<Record<string, (fails: Fails) => AnyOptions>> = {
  keyer: (fails) => ({ keyer: fails, limits: LIMIT }),
  'a part of keyers after one that rejects': (fails) => ({ keyer: keyers(rejects, fails), limits: LIMIT }),
  'a LimitFunc': (fails) => ({ keyer: everyone, limits: fails }),
  'a LimitFunc after one that rejects': (fails) => ({ keyer: everyone, limits: [rejects, fails] }),
  'a LimitFunc after one that never settles': (fails) => ({ keyer: everyone, limits: [pending, fails] }),
  cost: (fails) => ({ keyer: everyone, limits: LIMIT, cost: fails }),
  'cost after it has rejected': (fails) => {
    let calls = 0
    return { keyer: everyone, limits: [LIMIT, perHour(9)], cost: () => (++calls % 2 === 1 ? rejects() : fails()) }
  },
  'a keyer of a stack after one that rejects': (fails) => {
    const store = memoryStore()
    const limiters = [rejects, fails].map((keyer, i) =>
      createLimiter({ name: `part ${i}`, keyer, limits: LIMIT, store }),
    )
    return { limiter: stack(...limiters) }
  },
  'a limiter of the user': (fails) => ({
    limiter: { ...createLimiter({ keyer: everyone, limits: LIMIT }), consume: fails },
  }),
  skip: (fails) => ({ keyer: everyone, limits: LIMIT, skip: fails }),
  'clock.now': (fails) => ({ keyer: everyone, limits: LIMIT, store: memoryStore({ clock: { now: fails } }) }),
  'attributes of rules': (attributes) => ({
    rules: createRules(
      { policies: [{ name: 'api', key: 'attribute:tenant', limits: [{ quota: 1, window: '1m' }] }] },
      { attributes },
    ),
  }),
  'address of allow': (address) => ({ keyer: everyone, limits: LIMIT, allow: ['192.0.2.1'], address }),
  'address of rules': (address) => ({
    rules: createRules({ policies: [{ name: 'api', key: 'ip', limits: [{ quota: 1, window: '1m' }] }] }, { address }),
  }),
}

/** Options with a function that fails once a request is admitted, or has no influence. The warning is the only effect. */
const harmless: Readonly<Record<string, (fails: Fails) => AnyOptions>> = {
  onDecision: (onDecision) => ({ keyer: everyone, limits: LIMIT, onDecision }),
  refundWhen: (refundWhen) => ({ keyer: everyone, limits: LIMIT, refundWhen }),
  settleWith: (settleWith) => ({ keyer: everyone, limits: LIMIT, settleWith }),
  'the function that settleWith returns': (fails) => ({ keyer: everyone, limits: LIMIT, settleWith: () => fails }),
  resetWhen: (resetWhen) => ({ keyer: everyone, limits: LIMIT, resetWhen }),
  'onDenied of rules in shadow': (onDenied) => {
    const document = (quota: number): never =>
      ({ policies: [{ name: 'api', key: 'ip', limits: [{ quota, window: '1m' }] }] }) as never
    const rules = createRules(document(1), { address: () => '192.0.2.1' })
    rules.shadow(document(0), { onDenied })
    return { rules }
  },
}

describe.each(onlyTwoFrameworks)('$name', (harness) => {
  const served = (options: AnyOptions): ReturnType<typeof serveApp> => serveApp(harness, { limits: [options] })
  const twoStatuses = async (server: Served): Promise<number[]> => [
    (await ask(server)).status,
    (await ask(server)).status,
  ]

  /** An object without a text is an error that some frameworks cannot print. */
  const printed = Object.entries(FAILURES).filter(([name]) => !name.includes('without a text'))

  test.each(Object.entries(before))(
    '%s that fails admits nobody, and its error goes to the framework',
    async (_, optionsOf) => {
      const found = unhandled()
      for (const [name, fails] of printed) {
        const server = await served(optionsOf(fails))
        expect(await twoStatuses(server), name).toEqual([500, 500])
        await turns()
        expect([server.ran(), found, server.errors.length], name).toEqual([0, [], 2])
      }
      expect(waitingRequests().size).toBe(0)
    },
  )

  test('a store of the user that fails is an outage, and no unhandled rejection', async () => {
    const found = unhandled()
    for (const [name, fails] of printed) {
      await warningsOf(async () => {
        const server = await served({ keyer: everyone, limits: LIMIT, store: failingStore(fails) })
        expect(await twoStatuses(server), name).toEqual([200, 429])
        await turns()
      })
    }
    expect(found).toEqual([])
  })

  test.each(Object.entries(harmless))('%s that fails changes nothing but causes a warning', async (_, optionsOf) => {
    const found = unhandled()
    for (const [name, fails] of Object.entries(FAILURES)) {
      const codes = await warningsOf(async () => {
        expect(await twoStatuses(await served(optionsOf(fails))), name).toEqual([200, 429])
        await turns(10)
      })
      expect([codes, found], name).toEqual([['SLUICE_OUTCOME'], []])
    }
  })

  test.each(['message', 'onDenied'])('%s that fails goes to the framework', async (option) => {
    const found = unhandled()
    for (const [name, fails] of printed) {
      const server = await served({ keyer: everyone, limits: LIMIT, [option]: fails })
      const statuses = await twoStatuses(server)
      await turns()
      expect([statuses, server.ran(), found], name).toEqual([[200, 500], 1, []])
    }
  })

  test('functions that never settle hold nothing once the client is gone', async () => {
    const found = unhandled()
    let called = 0
    const never = (): Promise<never> => {
      called++
      return pending()
    }
    for (const options of [
      { keyer: never, limits: LIMIT },
      { keyer: everyone, limits: [never, never] },
      { keyer: everyone, limits: LIMIT, cost: never },
      { keyer: everyone, limits: LIMIT, skip: never },
    ]) {
      called = 0
      const server = await served(options)
      const socket = await dial(server)
      await until(() => called > 0)
      socket.destroy()
      await turns(10)
      expect([server.ran(), waitingRequests().size]).toEqual([0, 0])
    }
    expect(found).toEqual([])
  })

  test('a request that waits for its slot is no longer held when the client is gone', async () => {
    const server = await served({ keyer: everyone, limits: leakyBucket({ quota: 1, window: '1h', capacity: 2 }) })
    await ask(server)
    const socket = await dial(server)
    await until(() => waitingRequests().size === 1)
    socket.destroy()
    await until(() => waitingRequests().size === 0)
  })
})

describe('onError of node', () => {
  const keyer = (): never => {
    throw new Error('keyer')
  }

  test.each(Object.entries(FAILURES))('that %s is answered by the default, with a warning', async (_, onError) => {
    const found = unhandled()
    const limit = forNode({ keyer, limits: LIMIT, onError })
    const server = await serveForTest(limit((_request, response) => void response.end('ok')))
    const codes = await warningsOf(async () => {
      expect((await ask(server)).status).toBe(500)
      await turns()
    })
    expect([codes, found]).toEqual([['SLUICE_FAULT'], []])
  })

  test.each(Object.entries(FAILURES))('that %s closes the socket of an upgrade', async (_, onError) => {
    const found = unhandled()
    const upgrade = forNode({ keyer, limits: LIMIT, onError }).upgrade(() => undefined)
    const server = await listen(http.createServer().on('upgrade', upgrade))
    await warningsOf(async () => {
      const socket = await dial(server, '/', 'Connection: Upgrade\r\nUpgrade: websocket\r\n')
      socket.resume()
      await once(socket, 'close')
      await turns()
    })
    expect(found).toEqual([])
  })
})
