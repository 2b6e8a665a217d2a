import { once } from 'node:events'
import type { Socket } from 'node:net'
import { fixedWindow, leakyBucket } from '../../engine/factories.ts'
import { equal, holds } from '../behaviour.ts'
import type { AnyOptions, Handler, Served, Sink } from './harness.ts'
import { ask, beginUpload, dial, statuses, type Upload } from './client.ts'
import { type Cases, fault, one, outageStore, type World } from './world.ts'
import { turns, until } from '../waiting.ts'
import { warningsOf } from '../warnings.ts'
import { everyone } from '../../limiter/keyers.ts'
import { createLimiter, type Limiter } from '../../limiter/limiter.ts'
import type { Decision } from '../../limiter/decision.ts'
import { memoryStore } from '../../stores/memory/index.ts'

const slow = leakyBucket({ quota: 1, window: '1h', capacity: 3 })

export const delayCases: Cases = {
  'delays a request until its slot': async ({ limit, serve }) => {
    const server = await serve({ limits: [limit(leakyBucket({ quota: 10, window: '1s', capacity: 3 }))] })
    const began = performance.now()
    const replies = await Promise.all([ask(server), ask(server), ask(server), ask(server)])
    const seen = replies.map(({ status }) => status).toSorted((a, b) => a - b)
    equal(seen, [200, 200, 200, 429])
    holds(performance.now() - began >= 199, 'the third was not held for 200 ms')
  },
  'ends when the client hangs up, without a call of the handler and without a timer': async ({ limit, serve }) => {
    let [decided, ran] = [0, 0]
    const server = await serve({
      limits: [limit(slow, { onDecision: () => decided++ })],
      handler: () => ({ text: String(++ran) }),
    })
    await withTimers(60_000, async (timers) => {
      await ask(server)
      const client = await dial(server)
      await until(() => decided === 2, 'a decision')
      await until(() => timers.size === 1, 'a timer')
      client.destroy()
      await until(() => timers.size === 0, 'the freeing of the timer')
    })
    equal([ran, server.errors], [1, []])
  },
  'does not begin for a client that hung up before the decision': async ({ limit, serve }) => {
    let release = (): void => {}
    const decided = new Promise<void>((resolve) => (release = resolve))
    let [asked, decisions, ran] = [0, 0, 0]
    const keyer = async (): Promise<string> => {
      if (asked++ === 1) await decided
      return 'key'
    }
    const server = await serve({
      limits: [limit(slow, { keyer, onDecision: () => decisions++ })],
      handler: () => ({ text: String(++ran) }),
    })
    await withTimers(60_000, async (timers) => {
      await ask(server)
      const client = await dial(server)
      await until(() => asked === 2, 'the question')
      await hangUp(client)
      release()
      await until(() => decisions === 2, 'the decision')
      await until(() => timers.size === 0, 'the freeing of the timer')
    })
    equal([ran, server.errors], [1, []])
  },
}

/** Closes a connection. Resolves when the server has noticed this, a little later. */
async function hangUp(client: Socket): Promise<void> {
  client.destroy()
  await once(client, 'close')
  await new Promise((resolve) => setTimeout(resolve, 20))
}

/** The number of bytes that fills the windows of a connection. */
const PART = 500_000
const CLOSES = /\r\nconnection: close\r\n/i

/** Begins an upload, waits for the answer, and continues the upload. */
async function upload(
  server: Served,
  bytes: number,
  status: number,
  go: (client: Upload) => Promise<void>,
): Promise<void> {
  const client = await beginUpload(server, bytes)
  try {
    await until(() => client.received().includes('\r\n\r\n'), 'an answer')
    holds(client.received().startsWith(`HTTP/1.1 ${status} `), `the answer is not ${status}`)
    await go(client)
  } finally {
    client.close()
  }
}

export const uploadCases: Cases = {
  'is read and thrown away where it is small, and the connection stays': async ({ limit, serve }) => {
    const server = await serve({ limits: [limit(one)] })
    await ask(server)
    await upload(server, 1000, 429, async (client) => {
      holds(!CLOSES.test(client.received()), 'the answer ends the connection')
      equal([await client.write(500), await client.write(500)], [true, true])
      client.send('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
      await until(() => client.received().split('HTTP/1.1 429 ').length === 3, 'a second answer on the connection')
    })
  },
  'is read for a while where it is large, so that the client gets the whole answer': async (world) => {
    const { limit, serve, harness } = world
    const tooMany = { onDenied: harness.onDenied(() => ({ status: 429, text: 'no' })) }
    const closed = { store: outageStore(world, 'closed') }
    const cases: [AnyOptions, number][] = [
      [{}, 429],
      [tooMany, 429],
      [closed, 503],
      [{ keyer: fault }, 500],
    ]
    for (const [options, status] of cases) {
      const server = await serve({ limits: [limit(none, options)] })
      await upload(server, 100_000_000, status, async (client) => {
        holds(CLOSES.test(client.received()), 'the answer does not end the connection')
        for (let i = 0; i < 8; i++) holds(await client.write(PART), 'the connection was closed during the upload')
      })
    }
  },
}

const none = fixedWindow({ quota: 0, window: '1h' })

/** Calls `run` with the set of open timers of at least `ms` that start during the call. Frameworks start shorter timers. */
async function withTimers(ms: number, run: (timers: ReadonlySet<unknown>) => Promise<void>): Promise<void> {
  const { setTimeout, clearTimeout } = globalThis
  const set = new Set<unknown>()
  globalThis.setTimeout = Object.assign((...given: Parameters<typeof setTimeout>) => {
    const timer = setTimeout(...given)
    if (given[1]! >= ms) set.add(timer)
    return timer
  }, setTimeout)
  globalThis.clearTimeout = (timer) => {
    set.delete(timer)
    clearTimeout(timer)
  }
  try {
    await run(set)
  } finally {
    Object.assign(globalThis, { setTimeout, clearTimeout })
  }
}

/** Returns a handler whose responses stop after their first chunk, and the list of these unfinished responses. */
function unfinishedHandler(): { readonly unfinished: readonly Sink[]; readonly handler: Handler } {
  const unfinished: Sink[] = []
  const stream = (sink: Sink): void => {
    sink.write('a')
    unfinished.push(sink)
  }
  return { unfinished, handler: () => ({ stream }) }
}

export const endCases: Cases = {
  'waits for the last chunk of a response': async ({ limit, serve }) => {
    const { unfinished, handler } = unfinishedHandler()
    const server = await serve({ limits: [limit(one, { refundWhen: 'success' })], handler })
    const first = ask(server)
    await until(() => unfinished.length === 1, 'the first request')
    equal((await ask(server)).status, 429)
    unfinished[0]!.end('b')
    equal((await first).body, 'ab')
    const second = ask(server)
    await until(() => unfinished.length === 2, 'the second request')
    unfinished[1]!.end('b')
    equal((await second).status, 200)
  },
  'uses the cost that is known after the last chunk': async ({ limit, serve, harness }) => {
    const tokens = fixedWindow({ name: 'tokens', quota: 100, window: '1m' })
    const settleWith = (request: unknown): number => spent.get(harness.header(request, 'x-name'))!
    const spent = new Map<string | undefined, number>()
    const { unfinished, handler } = unfinishedHandler()
    const server = await serve({ limits: [limit(tokens, { cost: () => 50, settleWith })], handler })
    const first = ask(server, '/', { headers: { 'x-name': 'first' } })
    await until(() => unfinished.length === 1, 'the first request')
    // The cost is only known at the end, like the tokens of a language model.
    spent.set('first', 7)
    unfinished[0]!.end('b')
    equal((await first).headers['ratelimit'], '"tokens";r=50;t=60')
    const second = ask(server, '/', { headers: { 'x-name': 'second' } })
    await until(() => unfinished.length === 2, 'the second request')
    spent.set('second', 150)
    unfinished[1]!.end('b')
    equal((await second).headers['ratelimit'], '"tokens";r=43;t=60')
    equal(await statuses(server, 1), [429])
  },
}

/** The moment when a client disconnects: before the first byte of the response, or after it. */
type Moment = 'before' | 'midway'

/** Sends a request, and disconnects. Resolves when the server has noticed this, with the unfinished response. */
async function abort({ serve }: World, moment: Moment, options: AnyOptions, status = 200): Promise<Sink> {
  let held: Sink | undefined
  let closed = false
  const server = await serve({
    limits: [options],
    handler: () => ({
      status,
      stream(sink) {
        sink.closed(() => (closed = true))
        if (moment === 'midway') sink.write('a')
        held = sink
      },
    }),
  })
  const client = await dial(server)
  const answered = moment === 'before' || new Promise((resolve) => client.once('data', resolve))
  await until(() => held, 'the request')
  await answered
  client.destroy()
  await until(() => closed, 'the end of the connection')
  return held!
}

const ten = fixedWindow({ name: 'ten', quota: 10, window: '1m' })

function limiterOf({ clock }: World): Limiter<unknown, Decision> {
  return createLimiter<unknown>({ keyer: everyone, limits: ten, cost: () => 5, store: memoryStore({ clock }) })
}

function used(limiter: Limiter<unknown, Decision>): number {
  return 10 - limiter.peek({}, { cost: 0 }).limits[0]!.remaining
}

/** Waits until work without timers is done. */
const settled = (): Promise<void> => turns(20)

function statusOf(response: unknown): unknown {
  const { statusCode, status } = response as { readonly statusCode?: number; readonly status?: unknown }
  return statusCode ?? status
}

export const abortCases: Cases = {
  'that is a word does not follow a request that is aborted before it is answered': async (world) => {
    const words = {
      refundWhen: ['success', 'failure'],
      resetWhen: ['success', 'failure'],
      count: ['successes', 'failures'],
    }
    for (const [outcome, each] of Object.entries(words))
      for (const when of each) {
        const limiter = limiterOf(world)
        const rest = await abort(world, 'before', { limiter, [outcome]: when })
        await settled()
        rest.end('late')
        await settled()
        equal(used(limiter), 5, `${outcome}: ${when}`)
      }
  },
  'that is a function follows a request that is aborted before it is answered, with status 499': async (world) => {
    for (const outcome of ['refundWhen', 'resetWhen', 'settleWith']) {
      const limiter = limiterOf(world)
      const seen: unknown[] = []
      const note = (_request: unknown, response: unknown): unknown => {
        seen.push(statusOf(response))
        return outcome === 'settleWith' ? 0 : true
      }
      const rest = await abort(world, 'before', { limiter, [outcome]: note })
      await until(() => used(limiter) === 0, `the call of ${outcome}`)
      rest.end('late')
      await settled()
      equal([seen, used(limiter)], [[499], 0], outcome)
    }
  },
  'that reads the status does not refund a request that is aborted before its response': async (world) => {
    const limiter = limiterOf(world)
    let asked = 0
    const refundWhen = (_request: unknown, response: unknown): boolean => (asked++, Number(statusOf(response)) < 400)
    await abort(world, 'before', { limiter, refundWhen })
    await until(() => asked === 1, 'the call')
    await settled()
    equal(used(limiter), 5)
  },
  'uses the status that was sent when a response is aborted later': async (world) => {
    for (const [status, units] of [
      [200, 5],
      [500, 0],
    ] as const) {
      const limiter = limiterOf(world)
      let seen: unknown
      const settleWith = (_request: unknown, response: unknown): undefined => void (seen = statusOf(response))
      await abort(world, 'midway', { limiter, refundWhen: 'failure', settleWith }, status)
      await until(() => seen === 200 || used(limiter) === 0, 'the outcome')
      equal(used(limiter), units)
    }
  },
  'charges the cost that a promise reports long after the client hung up': async (world) => {
    for (const moment of ['before', 'midway'] as const)
      for (const cost of [0, 2, 9]) {
        const limiter = limiterOf(world)
        let report: ((cost: number) => void) | undefined
        const settleWith = (): Promise<number> => new Promise((resolve) => (report = resolve))
        const rest = await abort(world, moment, { limiter, settleWith })
        await until(() => report, 'the call of settleWith')
        if (moment === 'before') rest.end('late')
        await settled()
        equal(used(limiter), 5, 'before the report')
        report!(cost)
        await until(() => used(limiter) === cost, `a charge of ${cost}`)
      }
  },
  'that rejects after the client hung up causes one warning, and the charge stays': async (world) => {
    const unhandled: unknown[] = []
    const note = (reason: unknown): void => void unhandled.push(reason)
    process.on('unhandledRejection', note)
    try {
      for (const moment of ['before', 'midway'] as const)
        for (const outcome of ['refundWhen', 'settleWith', 'resetWhen']) {
          const limiter = limiterOf(world)
          let fail: (() => void) | undefined
          const failing = (): Promise<never> =>
            new Promise((_resolve, reject) => (fail = () => reject(new Error('no'))))
          const codes = await warningsOf(async () => {
            await abort(world, moment, { limiter, [outcome]: failing })
            await until(() => fail, `the call of ${outcome}`)
            fail!()
            await settled()
          })
          equal([codes, used(limiter)], [['SLUICE_OUTCOME'], 5], `${outcome} ${moment}`)
        }
    } finally {
      process.off('unhandledRejection', note)
    }
    equal(unhandled, [])
  },
  'does not follow a request whose client hangs up before its slot': async ({ limit, serve }) => {
    let [decided, asked] = [0, 0]
    const onDecision = (): void => void decided++
    const no = (): boolean => asked++ < 0
    const nothing = (): undefined => void asked++
    const limits = [limit(slow, { onDecision, refundWhen: no, resetWhen: no, settleWith: nothing })]
    const server = await serve({ limits, handler: fault })
    await ask(server)
    await until(() => asked === 3, 'the outcome of the first request')
    const client = await dial(server)
    await until(() => decided === 2, 'a decision')
    await hangUp(client)
    await settled()
    equal(asked, 3)
  },
}
