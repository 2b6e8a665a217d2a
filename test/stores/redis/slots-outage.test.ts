// What Redis has counted is gone after an empty restart, but the streams that had its slots still run.
import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { rateLimit } from '../../../adapters/node/index.ts'
import { concurrent, everyone, guard, type Store } from '../../../src/index.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { warningsOfEachTest } from '../../support/guarded.ts'
import { afterTest } from '../../support/after-test.ts'
import { connect, server, until } from '../../support/redis-tests.ts'

const QUOTA = 5

const warnings = warningsOfEachTest()

async function world() {
  const redis = await server()
  const states: string[] = []
  const onChange = ({ state }: { state: string }): void => void states.push(state)
  const store = guard(redisStore(connect(redis.port)), { deadline: '2s', onChange })
  afterTest(() => store.close())
  return {
    store,
    states,
    /** Kills Redis, and returns when decisions are made without it. */
    async kill(decide: () => Promise<unknown>) {
      await redis.stop()
      await until(async () => (await decide(), states.at(-1) === 'away'))
    },
    /** Starts an empty Redis in its place, and returns when it decides. */
    async restart(decide: () => Promise<unknown>) {
      await server('--port', String(redis.port))
      await until(async () => (await decide(), states.at(-1) === 'healthy'))
      for (let i = 0; i < 30; i++) await decide()
    },
  }
}

/** Streams of a server that end when their client hangs up. */
class Streams {
  running = 0
  most = 0
  readonly #clients: { destroy(): void }[] = []
  readonly #port: number

  constructor(listening: Server) {
    this.#port = (listening.address() as AddressInfo).port
  }

  static async start(store: Store, name: string): Promise<Streams> {
    const limit = rateLimit({ name, keyer: everyone, limits: concurrent(QUOTA), store })
    const made: { streams?: Streams } = {}
    const listener = limit((_request: IncomingMessage, response: ServerResponse) => made.streams!.serve(response))
    const listening = createServer(listener).listen(0, '127.0.0.1')
    afterTest(() => listening.close())
    await once(listening, 'listening')
    made.streams = new Streams(listening)
    afterTest(() => made.streams!.stop())
    return made.streams
  }

  serve(response: ServerResponse): void {
    this.running++
    this.most = Math.max(this.most, this.running)
    response.on('close', () => this.running--)
    response.write('begun')
  }

  /** Opens a stream, and returns the status of its response. */
  async open(): Promise<number | undefined> {
    const client = request({ host: '127.0.0.1', port: this.#port, agent: false }).on('error', () => undefined)
    this.#clients.push(client)
    const [response] = (await once(client.end(), 'response')) as [IncomingMessage]
    response.on('error', () => undefined).resume()
    return response.statusCode
  }

  /** Ends so many streams, the oldest first. Default: all. */
  stop(count = this.#clients.length): void {
    for (const client of this.#clients.splice(0, count)) client.destroy()
  }
}

it(
  'streams that run take their slots again as soon as Redis answers, before others can, also one that began in the outage',
  { timeout: 60_000 },
  async () => {
    const { store, states, kill, restart } = await world()
    const streams = await Streams.start(store, 'kept')
    for (let i = 0; i < QUOTA; i++) expect(await streams.open()).toBe(200)
    await kill(() => streams.open())
    streams.stop(1)
    await until(async () => (await streams.open()) === 200)
    await restart(() => streams.open())
    expect([states, streams.running, streams.most]).toEqual([['away', 'healthy'], QUOTA, QUOTA])
    expect(warnings.codes).not.toContain('SLUICE_SLOT_LOST')
    streams.stop()
    await until(async () => streams.running === 0)
    await pause(50)
    for (let i = 0; i < QUOTA; i++) expect(await streams.open()).toBe(200)
    expect(await streams.open()).toBe(429)
  },
)
