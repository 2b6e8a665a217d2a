// The suites of the package: its own algorithms, stores and adapters pass them, and broken ones fail.
import { describe, expect, it, test } from 'vitest'
import { memoryStore, type SyncStore } from '../../src/index.ts'
import type { Operation } from '../../src/extend.ts'
import { defineAlgorithm, knownAlgorithms } from '../../src/engine/all-algorithms.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import { isDeciding, perform } from '../../src/stores/store.ts'
import { adapterBehaviours, algorithmBehaviours, type Behaviour, storeBehaviours } from '../../src/testing.ts'
import { everyFramework } from '../adapters/frameworks.ts'
import { redisForAll } from '../support/redis-tests.ts'

/** Returns the names of the behaviours that fail. */
async function failing(behaviours: readonly Behaviour[]): Promise<string[]> {
  const names: string[] = []
  for (const { name, run } of behaviours) {
    await run().catch(() => names.push(name))
  }
  return names
}

describe('algorithmBehaviours', () => {
  test('finds a retry time that is off by one tick, and shows the same smallest case each time', async () => {
    const right = knownAlgorithms().find(({ name }) => name === 'fixedWindow')!
    const late = defineAlgorithm({
      ...right,
      name: 'late',
      step(...of) {
        right.step(...of)
        const out = of[5]
        if (!out.allowed) out.retry += 1
      },
    })
    const behaviours = algorithmBehaviours([late({ quota: 3, window: '10s' })])
    expect(await failing(behaviours)).toContain('admits at retry, and not one tick before')
    const broken = behaviours[0]!
    const messages = await Promise.all(
      [0, 1].map(() => broken.run().catch((error: unknown) => (error as Error).message)),
    )
    expect(messages[0]).toMatch(/seed: 20260101.*Shrunk/s)
    expect(messages[1]).toBe(messages[0])
  })

  test('refuses an empty list of limits', () => {
    expect(() => algorithmBehaviours([])).toThrow(/limits/)
  })
})

describe('storeBehaviours', () => {
  const redis = redisForAll()
  let runs = 0

  describe('memoryStore', () => {
    for (const { name, run } of storeBehaviours((clock) => memoryStore({ clock }), { runs: 50 })) test(name, run)
  })

  describe('redisStore', () => {
    const makeStore = (clock: { now(): number }) => redisStore(redis.client, { clock, prefix: `suite${++runs}:` })
    // test/stores/redis/equality.test.ts has a longer search.
    for (const { name, run } of storeBehaviours(makeStore, { runs: 50 })) test(name, run)
  })

  const broken: Readonly<Record<string, [(store: SyncStore) => SyncStore, string]>> = {
    'charges in a peek': [
      (store) => ({
        ...store,
        run: (operation, reply) =>
          store.run(isDeciding(operation) ? { ...operation, kind: 'consume' } : operation, reply),
      }),
      'the store peeks without charging',
    ],
    'decides charges one by one': [
      (store) => ({
        ...store,
        run(operation, reply) {
          if (!isDeciding(operation)) return store.run(operation, reply)
          for (const each of operation.charges) perform(store, { ...operation, charges: [each] })
          reply.answered()
          return undefined
        },
      }),
      'the store charges every limit or none',
    ],
    'gives nothing back': [(store) => without(store, 'adjust'), 'an adjustment refunds a charge, once'],
    'resets nothing': [(store) => without(store, 'forget'), 'keys are reset one by one'],
  }

  it.each(Object.entries(broken))('finds a store that %s', async (_name, [breaking, behaviour]) => {
    const failed = await failing(storeBehaviours((clock) => breaking(memoryStore({ clock })), { runs: 50 }))
    expect(failed).toContain(behaviour)
    expect(failed).toContain('the store decides the same as memoryStore')
  })
})

/** Returns a store that does nothing in operations of one kind. */
function without(store: SyncStore, kind: Operation['kind']): SyncStore {
  return {
    ...store,
    run(operation, reply) {
      if (operation.kind !== kind) return store.run(operation, reply)
      reply.answered()
      return undefined
    },
  }
}

describe('adapterBehaviours', () => {
  const express = everyFramework.find(({ name }) => name === 'Express 5')!

  test('finds an adapter without limits', async () => {
    const unlimited = {
      ...express,
      serve: (setup: Parameters<typeof express.serve>[0]) => express.serve({ ...setup, limits: [] }),
    }
    const quick = adapterBehaviours(unlimited).filter(({ name }) => !/delay|refund/.test(name))
    const failed = await failing(quick)
    expect(failed).toEqual(
      expect.arrayContaining([
        'the headers show an admitted client the remaining quota',
        'a denial does not call the handler',
      ]),
    )
    expect(failed).toContain('an error admits no request, whatever value is thrown')
  })

  test('omits what a framework cannot do', () => {
    const names = (lacks: typeof express.lacks): number => adapterBehaviours({ ...express, lacks: lacks! }).length
    expect(names([]) - names(['early-headers', 'proxy-trust'])).toBe(4)
  })
})
