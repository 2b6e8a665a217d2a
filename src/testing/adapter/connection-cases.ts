import { fixedWindow, leakyBucket } from '../../engine/factories.ts'
import { equal, holds } from '../behaviour.ts'
import { ask, type Cases, dial, one, type Sink, statuses, until } from './world.ts'

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
    const timers = watchTimers(60_000)
    let decided = 0
    let ran = 0
    const slow = leakyBucket({ quota: 1, window: '1h', capacity: 3 })
    const server = await serve({
      limits: [limit(slow, { onDecision: () => decided++ })],
      handler: () => ({ text: String(++ran) }),
    })
    try {
      await ask(server)
      const client = await dial(server)
      await until(() => decided === 2, 'a decision')
      await until(() => timers.set.size === 1, 'a timer')
      client.destroy()
      await until(() => timers.set.size === 0, 'the freeing of the timer')
    } finally {
      timers.stop()
    }
    equal([ran, server.errors], [1, []])
  },
  'does not begin for a client that hung up before the decision': async ({ limit, serve }) => {
    const timers = watchTimers(60_000)
    let release = (): void => {}
    const decided = new Promise<void>((resolve) => (release = resolve))
    let [asked, closed, decisions, ran] = [0, 0, 0, 0]
    const keyer = async (): Promise<string> => {
      if (asked++ === 1) await decided
      return 'key'
    }
    const slow = leakyBucket({ quota: 1, window: '1h', capacity: 3 })
    const server = await serve({
      limits: [limit(slow, { keyer, onDecision: () => decisions++ })],
      handler: () => ({ text: String(++ran) }),
    })
    try {
      await ask(server)
      const client = await dial(server)
      await until(() => asked === 2, 'the question')
      client.on('close', () => closed++).destroy()
      await until(() => closed === 1, 'the end of the connection')
      // The server notices it a little later.
      await new Promise((resolve) => setTimeout(resolve, 20))
      release()
      await until(() => decisions === 2, 'the decision')
      await until(() => timers.set.size === 0, 'the freeing of the timer')
    } finally {
      timers.stop()
    }
    equal([ran, server.errors], [1, []])
  },
}

/** Returns the timers of at least `ms` that are started from now on and not cleared. Frameworks start shorter ones. */
function watchTimers(ms: number): { readonly set: ReadonlySet<unknown>; stop(): void } {
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
  return { set, stop: () => void Object.assign(globalThis, { setTimeout, clearTimeout }) }
}

export const endCases: Cases = {
  'waits for the last chunk of a response': async ({ limit, serve }) => {
    const unfinished: Sink[] = []
    const server = await serve({
      limits: [limit(one, { refundWhen: 'success' })],
      handler: () => ({
        stream(sink) {
          sink.write('a')
          unfinished.push(sink)
        },
      }),
    })
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
    const unfinished: Sink[] = []
    const server = await serve({
      limits: [limit(tokens, { cost: () => 50, settleWith })],
      handler: () => ({
        stream(sink) {
          sink.write('a')
          unfinished.push(sink)
        },
      }),
    })
    const first = ask(server, '/', { headers: { 'x-name': 'first' } })
    await until(() => unfinished.length === 1, 'the first request')
    // The cost is only known at the end, as with the tokens of a language model.
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
