import { fixedWindow } from '../../../src/engine/factories.ts'
import type { Limit } from '../../../src/engine/limit.ts'
import { everyone } from '../../../src/limiter/keyers.ts'
import { createLimiter, stack } from '../../../src/limiter/limiter.ts'
import { memoryStore } from '../../../src/stores/memory/index.ts'
import { ask, statuses } from '../../../src/testing/adapter/client.ts'
import type { Answer, Handler } from '../../../src/testing/adapter/harness.ts'
import { answered, type Cases, fault, hundred, one, statusHandler, three } from '../../../src/testing/adapter/world.ts'
import { equal } from '../../../src/testing/behaviour.ts'
import { until } from '../../../src/testing/waiting.ts'
import { warningsOf } from '../../../src/testing/warnings.ts'

const bad = answered(401)

export const settlementCases: Cases = {
  'charges the actual cost of each limit, also with a promise': async ({ limit, serve }) => {
    const limits = [
      fixedWindow({ name: 'ten', quota: 10, window: '1m' }),
      fixedWindow({ name: 'kb', quota: 99, window: '1m' }),
    ]
    const settleWith = async () => (of: Limit) => (of.name === 'kb' ? 40 : 1)
    const server = await serve({ limits: [limit(limits, { settleWith })] })
    await ask(server)
    equal((await ask(server)).headers['ratelimit'], '"ten";r=8;t=60, "kb";r=58;t=60')
  },
  'refunds everything when both options apply': async ({ limit, serve }) => {
    const options = { cost: () => 2, refundWhen: 'success', settleWith: () => 3 }
    const server = await serve({ limits: [limit(three, options)] })
    equal(await statuses(server, 4), [200, 200, 200, 200])
  },
  'is decided once by each middleware of a request': async ({ limit, serve }) => {
    let asked = 0
    const refundWhen = (): boolean => asked++ >= 0
    const server = await serve({ limits: [limit(one, { refundWhen }), limit(three, { refundWhen }), limit(hundred)] })
    equal(await statuses(server, 4), [200, 200, 200, 200])
    equal(asked, 8)
    equal((await ask(server)).headers['ratelimit'], '"one";r=0;t=60, "three";r=2;t=60, "default";r=95;t=60')
  },
}

/** Returns the same promise. It is awaited later, or never if the case fails before. */
function waited<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined)
  return promise
}

export const resetCases: Cases = {
  'ends a lock-out that another request of the key has caused': async ({ limit, serve }) => {
    const strict = fixedWindow({ name: 'one', quota: 1, window: '1m', block: '1h' })
    let release = (): void => {}
    const held = new Promise<Answer>((resolve) => (release = () => resolve({ text: 'ok' })))
    let first = true
    const handler: Handler = () => (first ? ((first = false), held) : { text: 'ok' })
    const server = await serve({ limits: [limit(strict, { resetWhen: 'success' })], handler })
    const login = waited(ask(server))
    await until(() => !first, 'the first request')
    equal((await ask(server)).status, 429)
    release()
    await login
    equal(await statuses(server, 1), [200])
  },
  'takes precedence over a refund and a settlement of the same response': async ({ serve, limit }) => {
    const options = { resetWhen: 'success', refundWhen: fault, settleWith: fault, cost: () => 2 }
    const server = await serve({ limits: [limit(three, options)] })
    equal(await warningsOf(async () => equal(await statuses(server, 3), [200, 200, 200])), [])
  },
  'leaves a refund and a settlement of other responses': async (world) => {
    const options = { resetWhen: 'success', settleWith: () => 3 }
    const server = await world.serve({ limits: [world.limit(three, options)], handler: statusHandler(world) })
    equal(await statuses(server, 2, bad), [401, 429])
  },
  'resets the keys of the decision, whatever the keyer returns later': async ({ serve, limit }) => {
    let user = 'ann'
    const keyer = (): string => user
    const server = await serve({
      limits: [limit(one, { keyer, resetWhen: 'success' })],
      handler: () => ({ text: (user = 'bob') }),
    })
    await ask(server)
    user = 'ann'
    equal(await statuses(server, 1), [200])
  },
  'resets every limiter of a stack, and no other one of the request': async ({ serve, clock, limit }) => {
    const store = memoryStore({ clock })
    const user = createLimiter<unknown>({ name: 'user', keyer: everyone, limits: three, store })
    const all = createLimiter<unknown>({ name: 'all', keyer: everyone, limits: hundred, store })
    const server = await serve({
      limits: [{ limiter: stack(user, all), resetWhen: 'success' }, limit(three)],
    })
    equal(await statuses(server, 4), [200, 200, 200, 429])
    equal([user.consume({}).remaining, all.consume({}).remaining], [1, 98])
  },
}
