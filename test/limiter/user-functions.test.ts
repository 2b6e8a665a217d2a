import { describe, expect, it, test, vi } from 'vitest'
import { waitingRequests } from '../../src/limiter/waiting.ts'
import { keyers } from '../../src/limiter/keyers.ts'
import { createLimiter, stack } from '../../src/limiter/limiter.ts'
import type { LimiterOptions } from '../../src/limiter/options.ts'
import { perHour, perMinute, perSecond } from '../../src/engine/factories.ts'
import { createRules } from '../../src/rules/rules.ts'
import { guard } from '../../src/stores/guard/index.ts'
import { denyCache } from '../../src/stores/deny-cache/index.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import type { AsyncStore } from '../../src/stores/store.ts'
import { remoteStore } from '../../src/testing/adapter/world.ts'
import { warningsOf } from '../support/http.ts'
import { methodsOf, methodStore } from '../support/method-store.ts'
import { broken, FAILURES, turns, unhandled } from '../support/unhandled.ts'

const LIMIT = perMinute(5)
const failures = Object.entries(FAILURES)
const rejects = FAILURES['rejects']!
const pending = (): Promise<never> => new Promise(() => undefined)
const key = (): string => 'k'

function asyncStore(): AsyncStore {
  return remoteStore(memoryStore())
}

type Fails = () => never

/** Limiters with a function that fails, by its place. The first of two functions has returned a promise when the second fails. */
const places: Readonly<Record<string, (fails: Fails) => LimiterOptions<object>>> = {
  'a keyer': (fails) => ({ keyer: fails, limits: LIMIT }),
  'a part of keyers': (fails) => ({ keyer: keyers(key, fails), limits: LIMIT }),
  'a part of keyers after one that rejects': (fails) => ({ keyer: keyers<object>(rejects, fails), limits: LIMIT }),
  'a part of keyers after one that never settles': (fails) => ({
    keyer: keyers<object>(pending, fails),
    limits: LIMIT,
  }),
  'a LimitFunc': (fails) => ({ keyer: key, limits: fails }),
  'a LimitFunc with an asynchronous keyer': (fails) => ({ keyer: async () => 'k', limits: fails }),
  'a LimitFunc after one that rejects': (fails) => ({ keyer: key, limits: [rejects, LIMIT, fails] }),
  'a LimitFunc after one that never settles': (fails) => ({ keyer: key, limits: [pending, fails] }),
  'a LimitFunc before one that rejects': (fails) => ({ keyer: key, limits: [fails, rejects] }),
  'a cost function': (fails) => ({ keyer: key, limits: LIMIT, cost: fails }),
  'a cost function after it has rejected': (fails) => {
    let calls = 0
    return { keyer: key, limits: [LIMIT, perHour(9)], cost: () => (++calls % 2 === 1 ? rejects() : fails()) }
  },
  'a cost function while it is pending': (fails) => {
    let calls = 0
    return { keyer: key, limits: [LIMIT, perHour(9)], cost: () => (++calls % 2 === 1 ? pending() : fails()) }
  },
}

/** Calls of a limiter, and which of its functions they need. */
const calls = [
  ['consume', /./],
  ['peek', /./],
  ['wait', /./],
  ['penalize', /key|LimitFunc/],
  ['block', /key|LimitFunc/],
  ['pause', /key|LimitFunc/],
  ['reset', /^a (keyer|part of keyers)/],
] as const

describe.each(Object.entries(places))('%s', (place, optionsOf) => {
  test.each(failures)('that %s reaches the caller, and charges nothing', async (_, fails) => {
    const found = unhandled()
    for (const store of [memoryStore(), asyncStore()]) {
      const limiter = createLimiter<object>({ ...optionsOf(fails), store })
      const checked = createLimiter({ keyer: key, limits: [LIMIT, perHour(9)], shared: true, store })
      for (const [call, needs] of calls) {
        if (!needs.test(place)) continue
        const argument = call === 'penalize' ? 1 : call === 'block' || call === 'pause' ? '1m' : undefined
        await expect((async () => limiter[call]({}, argument as never))(), call).rejects.toBeDefined()
      }
      expect((await checked.peek({}, { cost: 0 })).limits.map(({ remaining }) => remaining)).toEqual([5, 9])
      expect(waitingRequests().size).toBe(0)
    }
    await turns()
    expect(found).toEqual([])
  })
})

describe('a stack', () => {
  test.each(failures)('whose second keyer %s after the first one rejected reaches the caller', async (_, fails) => {
    const found = unhandled()
    for (const first of [rejects, pending]) {
      for (const store of [memoryStore(), asyncStore()]) {
        const limiters = [first, fails].map((keyer, i) =>
          createLimiter<object>({ name: `part ${i}`, keyer, limits: LIMIT, store }),
        )
        const both = stack(...limiters)
        for (const call of ['consume', 'peek', 'wait', 'reset'] as const)
          await expect((async () => both[call]({}))(), call).rejects.toBeDefined()
        for (const call of ['block', 'pause'] as const)
          await expect((async () => both[call]({}, '1m'))(), call).rejects.toBeDefined()
      }
    }
    expect(waitingRequests().size).toBe(0)
    await turns()
    expect(found).toEqual([])
  })
})

/** A query that runs when it is awaited: its `then` returns nothing, and it has no `catch`. */
function thenable<Value>(value: Value): Promise<Value> {
  const query = {
    // oxlint-disable-next-line unicorn/no-thenable -- the test is about such values
    then(resolve: (value: Value) => void) {
      resolve(value)
    },
  }
  return query as unknown as Promise<Value>
}

test('a thenable is taken for a promise', async () => {
  const options: LimiterOptions<object> = {
    keyer: keyers<object>(() => thenable('k')),
    limits: [() => thenable(LIMIT), perHour(9)],
    cost: () => thenable(2),
    onDecision: () => thenable(1) as unknown,
  }
  const codes = await warningsOf(async () => {
    for (const keyer of [options.keyer, () => thenable('j')]) {
      const limiter = createLimiter({ ...options, keyer })
      expect((await limiter.consume({})).limits.map(({ remaining }) => remaining)).toEqual([3, 7])
    }
    const fixed = createLimiter({ keyer: () => thenable('k'), limits: LIMIT })
    expect((await fixed.consume({})).remaining).toBe(4)
    await turns()
  })
  expect(codes).toEqual([])
})

describe('a promise where a value is expected', () => {
  const refused = [
    ['a list of limits', { keyer: key, limits: () => [rejects(), rejects()] }],
    ['a clock', { keyer: key, limits: LIMIT, store: memoryStore({ clock: { now: rejects } }) }],
  ] as const
  test.each(refused)('is an error, and its own rejection does not end the process: %s', async (_, options) => {
    const found = unhandled()
    const limiter = createLimiter<object>(options as never)
    expect(() => limiter.consume({})).toThrow(/a promise/)
    await turns()
    expect(found).toEqual([])
  })

  test('is an error as units of penalize, and as the actual cost of settle', async () => {
    const found = unhandled()
    const limiter = createLimiter({ keyer: key, limits: LIMIT })
    const decision = limiter.consume({})
    expect(() => limiter.penalize({}, rejects)).toThrow(/a promise/)
    expect(() => limiter.settle(decision, rejects)).toThrow(/a promise/)
    await turns()
    expect(found).toEqual([])
  })
})

describe('attributes of rules', () => {
  const keyed = { policies: [{ name: 'api', key: 'attribute:tenant', limits: [{ quota: 5, window: '1m' }] }] }

  test.each(failures)('that %s reach the caller', async (_, attributes) => {
    const found = unhandled()
    const limiter = createLimiter({ rules: createRules(keyed, { attributes }) })
    for (const call of ['consume', 'peek', 'wait', 'reset'] as const)
      await expect((async () => limiter[call]({}))(), call).rejects.toBeDefined()
    await turns()
    expect([found, waitingRequests().size]).toEqual([[], 0])
  })

  it('are refused if one of them is a promise', async () => {
    const found = unhandled()
    const attributes = (): Record<string, unknown> => ({ id: 1, tenant: rejects(), plan: rejects() })
    const limiter = createLimiter({ rules: createRules(keyed, { attributes }) })
    expect(() => limiter.consume({})).toThrow(/^attributes\.tenant: .*a promise/)
    await turns()
    expect(found).toEqual([])
  })
})

describe('onDenied of a document in shadow', () => {
  const document = (quota: number): never =>
    ({ policies: [{ name: 'api', key: 'ip', limits: [{ quota, window: '1m' }] }] }) as never

  test.each(failures)('that %s changes no decision, and causes one warning', async (_, onDenied) => {
    const found = unhandled()
    const rules = createRules(document(9))
    const trial = rules.shadow(document(1), { onDenied })
    const limiter = createLimiter({ rules })
    const codes = await warningsOf(async () => {
      for (let i = 0; i < 3; i++) expect((await limiter.consume({ ip: '192.0.2.1' })).allowed).toBe(true)
      await turns()
    })
    expect(found).toEqual([])
    expect(codes).toEqual(['SLUICE_OUTCOME'])
    expect(trial.report).toMatchObject({ requests: 3, denied: 2, failed: 0 })
  })
})

describe('a listener of rules', () => {
  const document = (quota: number): never =>
    ({ policies: [{ name: 'api', key: 'ip', limits: [{ quota, window: '1m' }] }] }) as never

  test.each(failures)('that %s causes a warning, and the other listeners are called', async (_, listener) => {
    const found = unhandled()
    const rules = createRules(document(1))
    const [once, later] = [vi.fn(), vi.fn()]
    rules.on('change', listener).once('change', once).on('change', later)
    const codes = await warningsOf(async () => {
      for (const quota of [2, 3]) expect(rules.replace(document(quota))).toBe(true)
      await turns()
    })
    expect(found).toEqual([])
    expect(codes).toEqual(['SLUICE_OUTCOME', 'SLUICE_OUTCOME'])
    expect([once.mock.calls.length, later.mock.calls.length, rules.current.version]).toEqual([1, 2, 3])
  })
})

describe('onFull of a memory store', () => {
  test.each(failures)('that %s changes no decision, and causes one warning', async (_, onFull) => {
    const found = unhandled()
    const store = memoryStore({ maxKeys: 1, onFull })
    const limiter = createLimiter({ keyer: (id: number) => id, limits: [LIMIT, perHour(9)], store })
    const codes = await warningsOf(async () => {
      for (let i = 0; i < 10; i++) expect(limiter.consume(i).allowed).toBe(true)
      await turns()
    })
    expect(found).toEqual([])
    expect(codes).toEqual(['SLUICE_OUTCOME'])
  })
})

describe('a clock', () => {
  test.each(failures)('whose now %s reaches the caller', async (_, now) => {
    const found = unhandled()
    const limiter = createLimiter({ keyer: key, limits: LIMIT, store: memoryStore({ clock: { now } }) })
    for (const call of ['consume', 'peek', 'wait', 'reset'] as const)
      await expect((async () => limiter[call]({}))(), call).rejects.toBeDefined()
    await turns()
    expect([found, waitingRequests().size]).toEqual([[], 0])
  })

  test.each(failures)('whose now %s while requests wait rejects them, and leaves no waiter', async (_, fails) => {
    const found = unhandled()
    let now: () => number = () => 1_767_225_600_000
    const wakes: (() => void)[] = []
    const after = (_ms: number, wake: () => void): (() => void) => {
      wakes.push(wake)
      return () => undefined
    }
    const store = memoryStore({ clock: { now: () => now(), after } })
    const limiter = createLimiter({ keyer: key, limits: perSecond(1, { name: 'one' }), store })
    await limiter.wait({})
    const waits = Promise.allSettled([limiter.wait({}), limiter.wait({}, { maxWait: 60_000 }), limiter.wait({})])
    await turns()
    now = fails
    for (const wake of wakes) wake()
    expect((await waits).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
    await turns()
    expect([found, waitingRequests().size]).toEqual([[], 0])
    // Nobody is ahead any more.
    now = () => 1_767_225_700_000
    expect(limiter.consume({}).allowed).toBe(true)
  })

  const afters = {
    throws: broken,
    'returns nothing to cancel': () => undefined,
    'returns a function that throws': () => broken,
  }
  test.each(Object.entries(afters))('whose after %s leaves no waiter', async (_, after) => {
    const found = unhandled()
    const clock = { now: () => 1_767_225_600_000, after: after as () => () => void }
    const limiter = createLimiter({ keyer: key, limits: perSecond(1), store: memoryStore({ clock }) })
    limiter.consume({})
    const gone = new AbortController()
    const waits = Promise.allSettled([
      limiter.wait({}, { signal: gone.signal }),
      limiter.wait({}, { signal: gone.signal, maxWait: 60_000 }),
    ])
    await turns()
    gone.abort()
    const codes = await warningsOf(async () => {
      expect((await waits).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
      await turns()
    })
    expect([found, waitingRequests().size]).toEqual([[], 0])
    expect(codes.every((code) => code === 'SLUICE_OUTCOME')).toBe(true)
  })
})

describe('a store of the user', () => {
  test.each<[string, () => unknown, string[]]>([
    ['whose function to give a decision up throws', () => broken, ['SLUICE_OUTCOME']],
    ['whose `run` returns nothing and never replies', () => undefined, []],
    ['whose `run` is an async function that never settles', () => new Promise(() => undefined), []],
    // The first failure of a store that has not answered yet is an outage.
    ['whose `run` is an async function that rejects', async () => broken(), ['SLUICE_OUTAGE']],
  ])('%s is replaced behind a guard', async (_, run, expected) => {
    const found = unhandled()
    for (const wrap of [(store: AsyncStore) => store, (store: AsyncStore) => denyCache(store)]) {
      const store = guard(wrap({ ...asyncStore(), run: run as AsyncStore['run'] }))
      const limiter = createLimiter({ keyer: key, limits: LIMIT, store })
      const codes = await warningsOf(async () => {
        expect((await limiter.consume({})).degraded).toBe('local')
        await turns()
      })
      expect(codes).toEqual(expected)
    }
    expect(found).toEqual([])
  })

  describe.each(['alone', 'behind a guard', 'behind denyCache', 'behind both'])('%s', (wrapping) => {
    const ways = [
      ...failures.map(([how, fails]) => [`methods ${how}`, 'methods', fails] as const),
      ...failures
        .filter(([how]) => how.startsWith('throws'))
        .map(([how, fails]) => [`run ${how}`, 'run', fails] as const),
    ]
    test.each(ways)('whose %s causes no unhandled rejection', async (_, what, fails) => {
      const found = unhandled()
      const methods = methodsOf(asyncStore())
      const store = methodStore(methods)
      const failing = what === 'run' ? store : methods
      const wrapped = {
        alone: (given: AsyncStore) => given,
        'behind a guard': (given: AsyncStore) => guard(given),
        'behind denyCache': (given: AsyncStore) => denyCache(given),
        'behind both': (given: AsyncStore) => guard(denyCache(given)),
      }[wrapping]!(store)
      const limiter = createLimiter({ keyer: key, limits: LIMIT, store: wrapped })
      await warningsOf(async () => {
        const decisions = [await limiter.consume({}), await limiter.consume({})]
        const works = { ...failing }
        for (const method of what === 'run' ? ['run'] : Object.keys(methods))
          Object.assign(failing, { [method]: fails })
        const tried = [
          () => limiter.consume({}),
          () => limiter.peek({}),
          () => limiter.wait({}, { maxWait: 50 }),
          () => limiter.penalize({}, 1),
          () => limiter.block({}, '1m'),
          () => limiter.pause({}, '1m'),
          () => limiter.reset({}),
          () => limiter.refund(decisions[0]!),
          () => limiter.settle(decisions[1]!, 3),
          ...Array.from({ length: 4 }, () => () => limiter.consume({})),
        ]
        await Promise.allSettled(tried.map(async (each) => each()))
        await turns()
        // What was kept is sent again.
        Object.assign(failing, works)
        await new Promise((resolve) => setTimeout(resolve, 600))
        await limiter.consume({})
        await wrapped.close()
      })
      expect([found, waitingRequests().size]).toEqual([[], 0])
    })
  })
})
