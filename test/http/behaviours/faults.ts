import { everyone } from '../../../src/limiter/keyers.ts'
import { createLimiter } from '../../../src/limiter/limiter.ts'
import { guard } from '../../../src/stores/guard/index.ts'
import { type AsyncStore, isDeciding } from '../../../src/stores/store.ts'
import { ask, statuses } from '../../../src/testing/adapter/client.ts'
import { mode, quiet } from '../../../src/testing/adapter/fault-cases.ts'
import type { AnyOptions, Handler, Served } from '../../../src/testing/adapter/harness.ts'
import { type Cases, laterStore, one, type World } from '../../../src/testing/adapter/world.ts'
import { equal, fails, holds, like } from '../../../src/testing/behaviour.ts'
import { faultyStore, SILENT } from '../../support/faulty-store.ts'

export const optionCases: Cases = {
  'are refused when the limit is created if they are unknown or wrong': async ({ harness }) => {
    const fine = { keyer: everyone, limits: one }
    const values: Readonly<Record<string, readonly unknown[]>> = {
      headers: ['draft-5', true],
      headerNames: [{ limit: 'X-Quota' }],
      skip: [true],
      preflights: [true],
      onDenied: ['no'],
      refundWhen: ['maybe'],
      count: ['failure', () => 'failures'],
      settleWith: [3],
      resetWhen: ['always'],
      onDecision: [{}],
      message: [429, null, { toJSON: () => undefined }],
      statusCode: [200, 600, 429.5, '429'],
      allow: ['127.0.0.1', ['localhost'], ['10.0.0.0/33']],
      address: [() => '127.0.0.1'],
      onOutage: ['shut'],
      checks: ['no'],
      queue: [{ max: 0 }, { maxTotal: 0 }, { maxWait: 'soon' }, 5],
      release: ['never'],
    }
    const wrong: readonly AnyOptions[] = [
      ...Object.entries(values).flatMap(([name, each]) => each.map((value) => ({ ...fine, [name]: value }))),
      {},
      { keyer: everyone },
      { limits: one },
      { ...fine, headers: 'legacy', headerNames: { limit: 'X-Quota: 1\r\nSet-Cookie' } },
      { ...fine, count: 'failures', refundWhen: 'success' },
      { ...fine, message: 'no', onDenied: () => undefined },
      { ...fine, statusCode: 403, onDenied: () => undefined },
      { ...fine, allow: ['10.1'], address: () => undefined },
      { ...fine, allow: ['::1'], address: '127.0.0.1' },
      Object.assign(Object.create({ method: 'GET' }) as object, { url: '/' }),
      { limiter: createLimiter(fine), limits: one },
      { limiter: {} },
    ]
    const error = { name: 'SluiceError', code: 'INVALID_OPTION' }
    for (const options of wrong) await fails(() => harness.make(options), error, JSON.stringify(options))
    for (const more of [{ max: 5 }, { queue: { least: 1 } }])
      await fails(() => harness.make({ ...fine, ...more }), { ...error, code: 'UNKNOWN_OPTION' })
  },
}

/** A store whose server is away. `asked` has the limiter of each decision that the store was asked for. */
interface Away {
  readonly store: AsyncStore
  readonly asked: string[]
}

/** Returns a store whose server refuses connections. */
function awayStore(world: World): Away {
  const asked: string[] = []
  const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
  const store = faultyStore((operation) => {
    if (!isDeciding(operation)) return undefined
    asked.push(operation.charges[0]!.policy.limiter)
    return refused
  }, laterStore(world))
  return { store, asked }
}

/** Sends requests until the store is no longer asked. Late answers do not count while this process is busy. */
async function lose(server: Served, { asked }: Away, path?: string): Promise<void> {
  const count = (): number => asked.filter((limiter) => !limiter.startsWith('·')).length
  for (let i = 0; i < 50; i++) {
    const before = count()
    await statuses(server, 1, {}, path)
    if (count() === before) return
  }
  throw new Error('The store is asked again and again')
}

export const outageCases: Cases = {
  'is shared by all limits on a store, each of which decides in its own way': quiet(async (world) => {
    const away = awayStore(world)
    const limit = (name: string, onOutage: string): AnyOptions =>
      world.limit(one, { store: away.store, name, onOutage })
    const server = await world.serve({
      limits: [],
      routes: [
        { path: '/open', limit: limit('a', 'open') },
        { path: '/closed', limit: limit('b', 'closed') },
        { path: '/local', limit: limit('c', 'local') },
      ],
    })
    await lose(server, away, '/open')
    equal(await statuses(server, 1, {}, '/open'), [200])
    equal(await statuses(server, 2, {}, '/closed'), [503, 503])
    equal(await statuses(server, 2, {}, '/local'), [200, 429])
    const asked = ['a', 'b', 'c'].filter((name) => away.asked.includes(name))
    equal(asked, ['a'], 'the limits for which the store was asked during the outage')
  }),
  'also applies to a given limiter, whose refunds then count in this process': quiet(async (world) => {
    const { store } = awayStore(world)
    const limiter = createLimiter<unknown>({ keyer: everyone, limits: one, store })
    const handler: Handler = async ({ decision }) => {
      await limiter.refund(decision!)
      return { text: String(decision!.degraded) }
    }
    const server = await world.serve({ limits: [{ limiter, onOutage: 'local' }], handler })
    for (let i = 0; i < 3; i++) like(await ask(server), { status: 200, body: 'local' })
  }),
  'refunds what was charged in this process': quiet(async (world) => {
    const options = { store: awayStore(world).store, refundWhen: 'success' }
    const server = await world.serve({ limits: [world.limit(one, options)] })
    equal(await statuses(server, 4), [200, 200, 200, 200])
  }),
  'is decided by the options of `guard` for a store that is already guarded': quiet(async (world) => {
    const silent = faultyStore((operation) => (isDeciding(operation) ? SILENT : undefined), laterStore(world))
    const store = guard(silent, { onOutage: 'open', deadline: 200 })
    const own = await world.serve({ limits: [world.limit(one, { store, name: 'own' })], handler: mode })
    const since = performance.now()
    equal((await ask(own)).body, 'open')
    holds(performance.now() - since > 190, 'The deadline of the guard did not apply')
    const other = await world.serve({ limits: [world.limit(one, { store, name: 'other', onOutage: 'closed' })] })
    equal(await statuses(other, 1), [503])
  }),
  'never happens to a store that decides at once': async (world) => {
    const server = await world.serve({ limits: [world.limit(one, { onOutage: 'closed' })], handler: mode })
    equal((await ask(server)).body, 'undefined')
    equal(await statuses(server, 1), [429])
  },
}
