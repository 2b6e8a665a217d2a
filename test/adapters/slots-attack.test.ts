// Clients that end their requests in any way do not make more handlers run than `concurrent` allows, and get every slot back.
import { once } from 'node:events'
import http from 'node:http'
import http2 from 'node:http2'
import { setTimeout as pause } from 'node:timers/promises'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { rateLimit } from '../../adapters/node/index.ts'
import {
  concurrent,
  createLimiter,
  type Decision,
  everyone,
  leakyBucket,
  type Limit,
  type Limiter,
  memoryStore,
  perMinute,
  type Store,
} from '../../src/index.ts'
import { slotsHeld } from '../../src/limiter/slots.ts'
import { remoteStore } from '../../src/testing/later-store.ts'
import { QUICK } from '../parts.ts'
import { dial } from '../support/http.ts'
import { limiterOf, listen, serveApp, usedBy } from './framework.ts'
import { isOneOfTwo, twoFrameworks } from './frameworks.ts'

const QUOTA = 2
/** Milliseconds for which a handler works, and for which clients attack: at least, and at most on a busy machine. */
const WORK = 400
const ATTACK = 600
const LONGEST_ATTACK = 20_000
/** The most milliseconds after which a client hangs up. */
const STAY = 40
/** The least requests of each client; as many as wanted with SLUICE_SLOTS. */
const REQUESTS = Number(process.env['SLUICE_SLOTS'] ?? 0)

// Koa prints each connection that breaks.
beforeEach(() => void vi.spyOn(console, 'error').mockImplementation(() => undefined))

/** Counts the handlers that run. */
class Running {
  now = 0
  most = 0
  total = 0

  /** Returns a function that ends the work, however often it is called. */
  begin(): () => void {
    let isOver = false
    this.total++
    this.now++
    this.most = Math.max(this.most, this.now)
    return () => {
      if (!isOver) this.now--
      isOver = true
    }
  }

  async work(): Promise<void> {
    const stop = this.begin()
    await pause(WORK)
    stop()
  }
}

/**
 * Sends requests and hangs up, again and again, until more handlers have begun than the quota allows at once. Some hang up in an upload, and some in
 * the middle of the answer.
 */
async function attack(url: string, paths: readonly string[], running: Running): Promise<void> {
  const start = Date.now()
  const isOver = (sent: number): boolean =>
    sent >= REQUESTS && Date.now() > start + (running.total > QUOTA ? ATTACK : LONGEST_ATTACK)
  for (let sent = 0; !isOver(sent); sent++) {
    const upload = Math.random() < 0.2 ? 'Content-Length: 100000\r\n' : ''
    const socket = await dial({ url }, paths[Math.floor(Math.random() * paths.length)], upload)
    if (Math.random() < 0.2) await Promise.race([once(socket, 'data'), pause(WORK)])
    else await pause(Math.random() * STAY)
    socket.destroy()
  }
}

/** The stores of the attack. The later one answers after a client has gone. */
const STORES: readonly (readonly [string, () => Store])[] = [
  ['at once', () => memoryStore()],
  ['later', () => remoteStore(memoryStore(), () => pause(Math.random() * 20))],
]

/** What becomes of requests without a slot. */
const QUEUES = [
  ['denies', undefined],
  ['holds', { max: 50, maxWait: '10s' }],
] as const

// All frameworks share the code of stores and queues. An adapter says when a client has gone, and when a handler has ended.
describe.each(twoFrameworks)('$name', (framework) => {
  describe.each(STORES)('a store that answers %s', (when, storeOf) => {
    test.each(QUEUES.filter(([what]) => isOneOfTwo(framework) || (what === 'holds') === (when === 'later')))(
      '%s requests of clients that hang up while as many handlers run as the quota allows',
      { timeout: 60_000 + 200 * REQUESTS },
      async (_name, queue) => {
        const running = new Running()
        const [name, limits] = ['attacked', concurrent(QUOTA)]
        const limiter = createLimiter<unknown>({ name, keyer: everyone, limits, store: storeOf() })
        const served = await serveApp(framework, {
          limits: [{ limiter, checks: false, ...(queue && { queue }) } as never],
          routes: [
            {
              path: '/fault',
              handler() {
                throw new Error('fault')
              },
            },
            {
              path: '/stream',
              handler: () => ({
                stream(sink) {
                  const stop = running.begin()
                  sink.write('a')
                  // Handlers of streams stop when the client has gone.
                  sink.closed(stop)
                },
              }),
            },
          ],
          async handler() {
            await running.work()
            return { text: 'ok' }
          },
        })
        await Promise.all([attack(served.url, ['/'], running), attack(served.url, ['/', '/stream', '/fault'], running)])
        expect(running.most).toBeLessThanOrEqual(QUOTA)
        expect(running.total).toBeGreaterThan(QUOTA)
        // Each slot comes back when its handler has ended.
        await vi.waitFor(() => expect(running.now).toBe(0), { timeout: 5000 })
        await vi.waitFor(async () => expect((await limiter.peek(undefined, { cost: 0 })).limits[0]!.used).toBe(0), {
          timeout: 5000,
        })
        expect(slotsHeld().filter((held) => held.limiter === name)).toEqual([])
      },
    )
  })
})

/** What takes time after a request has a slot. Each has another limiter. */
const DELAYS: readonly (readonly [string, () => object])[] = [
  [
    'a store decides',
    () => {
      const store = remoteStore(memoryStore(), () => pause(200))
      return { limiter: createLimiter<unknown>({ name: 'other', keyer: everyone, limits: perMinute(100), store }) }
    },
  ],
  ['it waits in a queue', () => ({ limiter: usedUp(concurrent(1)), queue: {} })],
  ['a leaky bucket delays it', () => ({ limiter: usedUp(leakyBucket({ quota: 1, window: '10s', capacity: 2 })) })],
  ['skip returns false', () => ({ limiter: limiterOf(perMinute(100)), skip: () => pause(200, false) })],
  ['skip returns true', () => ({ limiter: limiterOf(perMinute(100)), skip: () => pause(200, true) })],
]

function usedUp(limit: Limit): Limiter<unknown, Decision> {
  const limiter = limiterOf(limit)
  limiter.consume(undefined)
  return limiter
}

describe.each(twoFrameworks)('$name', (framework) => {
  const inMostFrameworks = ['a store decides', 'skip returns true']
  const delays = DELAYS.filter(([name]) => isOneOfTwo(framework) || inMostFrameworks.includes(name))

  test.each(delays)('no handler starts for a client that leaves while %s, and no slot is kept', async (_, other) => {
    const limiter = limiterOf(concurrent(QUOTA))
    const { url, ran } = await serveApp(framework, {
      limits: [
        { limiter, checks: false },
        { ...other(), checks: false },
      ] as never,
    })
    const socket = await dial({ url })
    await vi.waitFor(() => expect(usedBy(limiter)).toBe(1))
    socket.destroy()
    await vi.waitFor(() => expect(usedBy(limiter)).toBe(0))
    await pause(250)
    expect(ran()).toBe(0)
  })
})

describe.each(QUICK)('a server of node:http2', () => {
  test('holds the slots of streams that were reset while their handlers run', async () => {
    const running = new Running()
    const limiter = limiterOf(concurrent(QUOTA))
    const limited = rateLimit({ limiter, checks: false })(async (_request, response) => {
      await running.work()
      response.end('ok')
    })
    const client = http2.connect((await listen(http2.createServer(limited as never))).url)
    const end = Date.now() + ATTACK
    while (Date.now() < end) {
      const stream = client.request({}).on('error', () => undefined)
      await pause(5)
      stream.close(http2.constants.NGHTTP2_CANCEL)
    }
    expect(running.most).toBe(QUOTA)
    await vi.waitFor(() => expect(usedBy(limiter)).toBe(0), { timeout: 5000 })
    client.destroy()
  })

  // Node emits no event then.
  test('gets the slots back, and asks for the cost, of streams that are reset without an error while nobody reads them', async () => {
    const limiter = limiterOf(concurrent(QUOTA))
    const settleWith = vi.fn(() => undefined)
    const limited = rateLimit({ limiter, settleWith, checks: false })((_request, response) => response.end('ok'))
    const { url } = await listen(http2.createServer(limited as never))
    const client = http2.connect(url, { settings: { initialWindowSize: 0 } })
    await once(client, 'remoteSettings')
    for (let i = 0; i < QUOTA; i++) {
      const stream = client.request({ ':method': 'POST' }).on('error', () => undefined)
      stream.write('a')
      await once(stream, 'response')
      stream.close(http2.constants.NGHTTP2_NO_ERROR)
    }
    await vi.waitFor(() => expect(usedBy(limiter)).toBe(0), { timeout: 5000 })
    expect(settleWith).toHaveBeenCalledTimes(QUOTA)
    client.destroy()
  })
})

async function serveWith(
  options: object,
  listener: (...given: Parameters<http.RequestListener>) => unknown,
): Promise<string> {
  return (await listen(http.createServer(rateLimit({ checks: false, ...options } as never)(listener)))).url
}

async function hangUp(url: string): Promise<void> {
  const socket = await dial({ url })
  await pause(30)
  socket.destroy()
  await pause(30)
}

/** Serves work whose cost is known at its end, and hangs up before. */
async function hangUpBeforeCost(limiter: object, cost: number): Promise<{ url: string; running: Running }> {
  const running = new Running()
  const url = await serveWith({ limiter, settleWith: () => cost }, async (_request, response) => {
    await running.work()
    response.end('ok')
  })
  await hangUp(url)
  return { url, running }
}

/** Returns a limiter that is not one of the package: it could write logs, too. */
function ownLimiter(inner: Limiter<unknown, Decision>) {
  return {
    consume: (request: unknown) => inner.consume(request),
    settle: (decision: Decision, actual: number) => inner.settle(decision, actual),
    refund: (decision: Decision) => inner.refund(decision),
    release: (decision: Decision) => inner.release(decision),
    renew: (decision: Decision) => inner.renew(decision),
  }
}

describe.each(QUICK)('a slot', () => {
  test("ends with the response under release: 'response'", async () => {
    const limiter = limiterOf(concurrent(QUOTA))
    const running = new Running()
    const url = await serveWith({ limiter, release: 'response' }, async (_request, response) => {
      await running.work()
      response.end('ok')
    })
    await hangUp(url)
    expect([usedBy(limiter), running.now]).toEqual([0, 1])
  })

  test('is held by a handler without a promise until it calls end', async () => {
    const limiter = limiterOf(concurrent(QUOTA))
    const responses: http.ServerResponse[] = []
    const url = await serveWith({ limiter }, (_request, response) => void responses.push(response))
    await hangUp(url)
    expect(usedBy(limiter)).toBe(1)
    responses[0]!.end('ok')
    await vi.waitFor(() => expect(usedBy(limiter)).toBe(0))
  })

  test('of a handler that never ends is free after its lease', async () => {
    const limiter = limiterOf(concurrent({ quota: QUOTA, expiresAfter: '1s' }))
    const url = await serveWith({ limiter }, () => undefined)
    await hangUp(url)
    expect(usedBy(limiter)).toBe(1)
    await vi.waitFor(() => expect(usedBy(limiter)).toBe(0), { timeout: 3000 })
  })

  test('of a handler whose promise never settles is renewed ten times after its client has hung up', async () => {
    const inner = limiterOf(concurrent({ quota: QUOTA, expiresAfter: '150ms' }))
    let isGone = false
    let renewals = 0
    const limiter = {
      ...ownLimiter(inner),
      renew: (decision: Decision) => {
        if (isGone) renewals++
        return inner.renew(decision)
      },
    }
    const url = await serveWith({ limiter }, async (_request, response) => {
      response.on('close', () => (isGone = true))
      await new Promise(() => undefined)
    })
    await hangUp(url)
    await vi.waitFor(() => expect(renewals).toBe(10), { timeout: 5000 })
    await vi.waitFor(() => expect(usedBy(inner)).toBe(0), { timeout: 5000 })
    await pause(150)
    expect([renewals, usedBy(inner)]).toEqual([10, 0])
  })

  test('is kept by a refund or settlement when the client hangs up', async () => {
    const limiter = limiterOf(concurrent(QUOTA))
    const { running } = await hangUpBeforeCost(limiter, 0)
    expect([usedBy(limiter), running.now]).toEqual([1, 1])
    await vi.waitFor(() => expect(usedBy(limiter)).toBe(0))
    expect(running.now).toBe(0)
  })

  test.each([0, 3])('of a limiter of your own lasts as long as the work, with an actual cost of %i', async (cost) => {
    const inner = limiterOf(concurrent(QUOTA), perMinute(100))
    const { url, running } = await hangUpBeforeCost(ownLimiter(inner), cost)
    expect([usedBy(inner), running.now]).toEqual([1, 1])
    await vi.waitFor(() => expect(usedBy(inner)).toBe(0))
    expect(running.now).toBe(0)
    await (await fetch(url)).text()
    await vi.waitFor(() => expect(usedBy(inner)).toBe(0))
  })
})
