import { everyone } from '../../limiter/keyers.ts'
import { createLimiter, stack } from '../../limiter/limiter.ts'
import { fixedWindow } from '../../engine/factories.ts'
import { memoryStore } from '../../stores/memory/index.ts'
import { equal } from '../behaviour.ts'
import {
  type Answer,
  ask,
  type Cases,
  fault,
  type Handler,
  hundred,
  laterStore,
  one,
  statuses,
  three,
  until,
  warningsOf,
} from './world.ts'

const bad = { headers: { 'x-status': '401' } }
const good = { headers: { 'x-status': '200' } }

/** Returns a promise that is awaited later, or never when the case fails before. */
function waited<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined)
  return promise
}

export const resetCases: Cases = {
  'forgets what was charged to the key after a success, or after a failure': async (world) => {
    const handler: Handler = ({ request }) => ({ status: Number(world.by('x-status')(request)), text: '' })
    for (const store of [memoryStore({ clock: world.clock }), laterStore(world)]) {
      const keyer = world.by('x-user')
      const options = { store, keyer, resetWhen: 'success', name: 'logins' }
      const server = await world.serve({ limits: [world.limit(three, options)], handler })
      const ann = { headers: { ...bad.headers, 'x-user': 'ann' } }
      const bob = { headers: { ...bad.headers, 'x-user': 'bob' } }
      equal(await statuses(server, 2, ann), [401, 401])
      equal(await statuses(server, 3, bob), [401, 401, 401])
      equal(await statuses(server, 1, { headers: { ...good.headers, 'x-user': 'ann' } }), [200])
      equal(await statuses(server, 4, ann), [401, 401, 401, 429])
      equal(await statuses(server, 1, bob), [429])
    }
    const failures = await world.serve({ limits: [world.limit(one, { resetWhen: 'failure' })], handler })
    equal(await statuses(failures, 2, bad), [401, 401])
    equal(await statuses(failures, 2, good), [200, 429])
  },
  'can depend on a function, also with a promise': async ({ limit, serve, by }) => {
    const isGood = (request: unknown): boolean => by('x-status')(request) === '200'
    for (const resetWhen of [isGood, async (request: unknown) => isGood(request)]) {
      const server = await serve({ limits: [limit(one, { resetWhen })] })
      equal(await statuses(server, 2, good), [200, 200])
      equal(await statuses(server, 2, bad), [200, 429])
    }
  },
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
  'leaves a refund and a settlement of other responses': async ({ serve, limit, by }) => {
    const handler: Handler = ({ request }) => ({ status: Number(by('x-status')(request)), text: '' })
    const options = { resetWhen: 'success', settleWith: () => 3 }
    const server = await serve({ limits: [limit(three, options)], handler })
    equal(await statuses(server, 2, bad), [401, 429])
  },
  'refunds nothing later for requests that were open': async (world) => {
    for (const store of [memoryStore({ clock: world.clock }), laterStore(world)]) {
      const limiter = createLimiter<unknown>({ keyer: everyone, limits: three, store, name: 'open' })
      const answers: (() => void)[] = []
      const open: Handler = () =>
        new Promise((resolve) => void answers.push(() => resolve({ status: 500, text: 'failed' })))
      const server = await world.serve({
        routes: [
          { path: '/work', limit: { limiter, refundWhen: 'failure' }, handler: open },
          { path: '/cost', limit: { limiter, settleWith: () => 0 }, handler: open },
          { path: '/login', limit: { limiter, resetWhen: 'success' } },
          { path: '/other', limit: { limiter } },
        ],
      })
      const pending = waited(Promise.all([ask(server, '/work'), ask(server, '/cost')]))
      await until(() => answers.length === 2, 'the open requests')
      equal((await ask(server, '/login')).headers['ratelimit'], '"three";r=0;t=60')
      equal((await ask(server, '/other')).headers['ratelimit'], '"three";r=2;t=60')
      for (const answer of answers) answer()
      await pending
      equal((await ask(server, '/other')).headers['ratelimit'], '"three";r=1;t=60')
    }
  },
  'refunds nothing later after a reset by another limiter that shares the counts': async (world) => {
    for (const store of [memoryStore({ clock: world.clock }), laterStore(world)]) {
      const options = { limits: three, store, name: 'shared', shared: true }
      const limiter = createLimiter<unknown>({ ...options, keyer: everyone })
      const admin = createLimiter<string>({ ...options, keyer: (key) => key })
      const answers: (() => void)[] = []
      const open: Handler = () =>
        new Promise((resolve) => void answers.push(() => resolve({ status: 500, text: 'failed' })))
      const server = await world.serve({ limits: [{ limiter, refundWhen: 'failure' }], handler: open })
      const pending = waited(Promise.all([ask(server), ask(server)]))
      await until(() => answers.length === 2, 'the open requests')
      await admin.reset('everyone')
      await limiter.consume({})
      for (const answer of answers) answer()
      await pending
      equal((await limiter.consume({})).remaining, 1)
    }
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
      limits: [{ limiter: stack<unknown>(user, all), resetWhen: 'success' }, limit(three)],
    })
    equal(await statuses(server, 4), [200, 200, 200, 429])
    equal([user.consume({}).remaining, all.consume({}).remaining], [1, 98])
  },
  'does not follow a denial': async ({ serve, limit }) => {
    const server = await serve({ limits: [limit(one, { cost: () => 2, resetWhen: fault })] })
    equal(await warningsOf(async () => equal(await statuses(server, 2), [429, 429])), [])
  },
  'causes one warning when its function fails, and the charge stays': async ({ serve, limit }) => {
    const server = await serve({ limits: [limit(one, { resetWhen: async () => fault() })] })
    equal(await warningsOf(async () => equal(await statuses(server, 2), [200, 429])), ['SLUICE_OUTCOME'])
  },
}
