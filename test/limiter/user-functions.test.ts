import { describe, expect, it, test, vi } from 'vitest'
import { waitingRequests } from '../../src/limiter/waiting.ts'
import { keyers } from '../../src/limiter/keyers.ts'
import { createLimiter, stack } from '../../src/limiter/limiter.ts'
import type { Limiter } from '../../src/limiter/contract.ts'
import type { LimiterOptions } from '../../src/limiter/options.ts'
import { perHour, perMinute, perSecond } from '../../src/engine/factories.ts'
import { createRules } from '../../src/rules/rules.ts'
import { guard } from '../../src/stores/guard/index.ts'
import { denyCache } from '../../src/stores/deny-cache/index.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import type { AsyncStore } from '../../src/stores/store.ts'
import { remoteStore } from '../../src/testing/later-store.ts'
import { warningsOf } from '../support/http.ts'
import { turns } from '../../src/testing/waiting.ts'
import { broken, FAILURES, unhandled } from '../support/unhandled.ts'

const LIMIT = perMinute(5)
const failures = Object.entries(FAILURES)
const rejects = FAILURES['rejects']!
const pending = (): Promise<never> => new Promise(() => undefined)
const key = (): string => 'k'

const asyncStore = (): AsyncStore => remoteStore(memoryStore())

/** A document with one policy. */
const document = (quota: number, by = 'ip') => ({
  policies: [{ name: 'api', key: by, limits: [{ quota, window: '1m' }] }],
})

/** Runs work and the turns after it. Expects that nothing would have ended the process, and that nothing waits. */
async function harmless(work: () => unknown): Promise<void> {
  const found = unhandled()
  await work()
  await turns(3)
  expect([found, waitingRequests().size]).toEqual([[], 0])
}

/** Expects that each call rejects, whether the limiter answers at once or later. */
async function rejected<Input extends object>(
  limiter: Limiter<Input>,
  calls: readonly (readonly [string, unknown?])[],
): Promise<void> {
  const methods = limiter as unknown as Record<string, (input: object, argument: unknown) => unknown>
  for (const [call, argument] of calls)
    await expect((async () => methods[call]!({}, argument))(), call).rejects.toBeDefined()
}

const ASKED = [['consume'], ['peek'], ['wait'], ['reset']] as const

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

/** Calls of a limiter with their arguments, and which of its functions they need. */
const calls: readonly [call: string, argument: unknown, needs: RegExp][] = [
  ['consume', undefined, /./],
  ['peek', undefined, /./],
  ['wait', undefined, /./],
  ['penalize', 1, /key|LimitFunc/],
  ['block', '1m', /key|LimitFunc/],
  ['pause', '1m', /key|LimitFunc/],
  ['reset', undefined, /^a (keyer|part of keyers)/],
]

describe.each(Object.entries(places))('%s', (place, optionsOf) => {
  const needed = calls.filter(([, , needs]) => needs.test(place)).map(([call, argument]) => [call, argument] as const)

  test.each(failures)('that %s reaches the caller, and charges nothing', async (_, fails) => {
    await harmless(async () => {
      for (const store of [memoryStore(), asyncStore()]) {
        const checked = createLimiter({ keyer: key, limits: [LIMIT, perHour(9)], shared: true, store })
        await rejected(createLimiter<object>({ ...optionsOf(fails), store }), needed)
        expect((await checked.peek({}, { cost: 0 })).limits.map(({ remaining }) => remaining)).toEqual([5, 9])
        expect(waitingRequests().size).toBe(0)
      }
    })
  })
})

describe('a stack', () => {
  test.each(failures)('whose second keyer %s after the first one rejected reaches the caller', async (_, fails) => {
    await harmless(async () => {
      for (const first of [rejects, pending]) {
        for (const store of [memoryStore(), asyncStore()]) {
          const limiters = [first, fails].map((keyer, i) =>
            createLimiter<object>({ name: `part ${i}`, keyer, limits: LIMIT, store }),
          )
          await rejected(stack(...limiters), [...ASKED, ['block', '1m'], ['pause', '1m']])
        }
      }
      expect(waitingRequests().size).toBe(0)
    })
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
    await turns(3)
  })
  expect(codes).toEqual([])
})

describe('a promise where a value is expected', () => {
  const refused = [
    ['a list of limits', { keyer: key, limits: () => [rejects(), rejects()] }],
    ['a clock', { keyer: key, limits: LIMIT, store: memoryStore({ clock: { now: rejects } }) }],
  ] as const
  test.each(refused)('is an error, and its own rejection does not end the process: %s', async (_, options) => {
    const limiter = createLimiter<object>(options as never)
    await harmless(() => expect(() => limiter.consume({})).toThrow(/a promise/))
  })

  test('is an error as units of penalize, and as the actual cost of settle', async () => {
    const limiter = createLimiter({ keyer: key, limits: LIMIT })
    const decision = limiter.consume({})
    await harmless(() => {
      expect(() => limiter.penalize({}, rejects)).toThrow(/a promise/)
      expect(() => limiter.settle(decision, rejects)).toThrow(/a promise/)
    })
  })
})

describe('attributes of rules', () => {
  const limiterOf = (attributes: () => Record<string, unknown>) =>
    createLimiter({ rules: createRules(document(5, 'attribute:tenant'), { attributes }) })

  test.each(failures)('that %s reach the caller', async (_, attributes) => {
    await harmless(() => rejected(limiterOf(attributes), ASKED))
  })

  it('are refused if one of them is a promise', async () => {
    const limiter = limiterOf(() => ({ id: 1, tenant: rejects(), plan: rejects() }))
    await harmless(() => expect(() => limiter.consume({})).toThrow(/^attributes\.tenant: .*a promise/))
  })
})

/** Expects that work would not end the process, and causes warnings about so many outcomes. */
async function warned(outcomes: number, work: () => unknown): Promise<void> {
  const codes = await warningsOf(() => harmless(work))
  expect(codes).toEqual(Array(outcomes).fill('SLUICE_OUTCOME'))
}

describe('onDenied of a document in shadow', () => {
  test.each(failures)('that %s changes no decision, and causes one warning', async (_, onDenied) => {
    const rules = createRules(document(9))
    const trial = rules.shadow(document(1), { onDenied })
    const limiter = createLimiter({ rules })
    await warned(1, async () => {
      for (let i = 0; i < 3; i++) expect((await limiter.consume({ ip: '192.0.2.1' })).allowed).toBe(true)
    })
    expect(trial.report).toMatchObject({ requests: 3, denied: 2, failed: 0 })
  })
})

describe('a listener of rules', () => {
  test.each(failures)('that %s causes a warning, and the other listeners are called', async (_, listener) => {
    const rules = createRules(document(1))
    const [once, later] = [vi.fn(), vi.fn()]
    rules.on('change', listener).once('change', once).on('change', later)
    await warned(2, () => {
      for (const quota of [2, 3]) expect(rules.replace(document(quota))).toBe(true)
    })
    expect([once.mock.calls.length, later.mock.calls.length, rules.current.version]).toEqual([1, 2, 3])
  })
})

describe('onFull of a memory store', () => {
  test.each(failures)('that %s changes no decision, and causes one warning', async (_, onFull) => {
    const store = memoryStore({ maxKeys: 1, onFull })
    const limiter = createLimiter({ keyer: (id: number) => id, limits: [LIMIT, perHour(9)], store })
    await warned(1, () => {
      for (let i = 0; i < 10; i++) expect(limiter.consume(i).allowed).toBe(true)
    })
  })
})

describe('a clock', () => {
  test.each(failures)('whose now %s reaches the caller', async (_, now) => {
    const limiter = createLimiter({ keyer: key, limits: LIMIT, store: memoryStore({ clock: { now } }) })
    await harmless(() => rejected(limiter, ASKED))
  })

  test.each(failures)('whose now %s while requests wait rejects them, and leaves no waiter', async (_, fails) => {
    let now: () => number = () => 1_767_225_600_000
    const wakes: (() => void)[] = []
    const after = (_ms: number, wake: () => void): (() => void) => {
      wakes.push(wake)
      return () => undefined
    }
    const store = memoryStore({ clock: { now: () => now(), after } })
    const limiter = createLimiter({ keyer: key, limits: perSecond(1, { name: 'one' }), store })
    await limiter.wait({})
    await harmless(async () => {
      const waits = Promise.allSettled([limiter.wait({}), limiter.wait({}, { maxWait: 60_000 }), limiter.wait({})])
      await turns(3)
      now = fails
      for (const wake of wakes) wake()
      expect((await waits).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
    })
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
    const clock = { now: () => 1_767_225_600_000, after: after as () => () => void }
    const limiter = createLimiter({ keyer: key, limits: perSecond(1), store: memoryStore({ clock }) })
    limiter.consume({})
    const gone = new AbortController()
    const codes = await warningsOf(() =>
      harmless(async () => {
        const { signal } = gone
        const waits = Promise.allSettled([limiter.wait({}, { signal }), limiter.wait({}, { signal, maxWait: 60_000 })])
        await turns(3)
        gone.abort()
        expect((await waits).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
      }),
    )
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
    for (const wrap of [(store: AsyncStore) => store, (store: AsyncStore) => denyCache(store)]) {
      const store = guard(wrap({ ...asyncStore(), run: run as AsyncStore['run'] }))
      const limiter = createLimiter({ keyer: key, limits: LIMIT, store })
      const asked = async () => expect((await limiter.consume({})).degraded).toBe('local')
      expect(await warningsOf(() => harmless(asked))).toEqual(expected)
    }
  })

  const wrappings: [string, (store: AsyncStore) => AsyncStore][] = [
    ['alone', (store) => store],
    ['behind a guard', (store) => guard(store)],
    ['behind denyCache', (store) => denyCache(store)],
    ['behind both', (store) => guard(denyCache(store))],
  ]
  describe.each(wrappings)('%s', (_, wrap) => {
    const ways = [
      ...failures.map(([how, fails]) => [`answer ${how}`, 'answer', fails] as const),
      ...failures
        .filter(([how]) => how.startsWith('throws'))
        .map(([how, fails]) => [`run ${how}`, 'run', fails] as const),
    ]
    test.each(ways)('whose %s causes no unhandled rejection', async (_, what, fails) => {
      let isBroken = false
      const inner = asyncStore()
      const answer = async (): Promise<void> => fails()
      const wrapped = wrap({
        ...inner,
        run(operation, reply) {
          if (!isBroken) return inner.run(operation, reply)
          if (what === 'run') return fails()
          void answer().catch((error: unknown) => reply.failed(error))
          return undefined
        },
      })
      const limiter = createLimiter({ keyer: key, limits: LIMIT, store: wrapped })
      const work = async (): Promise<void> => {
        const decisions = [await limiter.consume({}), await limiter.consume({})]
        isBroken = true
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
        await turns(3)
        // What was kept is sent again.
        isBroken = false
        await new Promise((resolve) => setTimeout(resolve, 600))
        await limiter.consume({})
        await wrapped.close()
      }
      await warningsOf(() => harmless(work))
    })
  })
})
