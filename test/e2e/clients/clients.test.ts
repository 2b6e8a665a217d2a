// Real HTTP clients read the headers and retry, over sockets and in real time.
import { Agent, request, RetryAgent } from 'undici'
import { describe, expect, test, vi } from 'vitest'
import type { Decision } from '../../../src/limiter/decision.ts'
import { everyone } from '../../../src/limiter/keyers.ts'
import type { Limit } from '../../../src/engine/limit.ts'
import { fixedWindow, tokenBucket } from '../../../src/engine/factories.ts'
import { nodeFrameworks } from '../../adapters/node-frameworks.ts'
import { axios, axiosRetry, got, ky, Octokit, parseRateLimit, throttling } from '../../support/clients.ts'
import { ask } from '../../support/http.ts'

// These tests mostly wait.
vi.setConfig({ maxConcurrency: 30 })

/** A client that retries by itself, set up as in its documentation. It requests a path and returns the body. */
interface Client {
  readonly headers?: string
  connect(url: string): (path: string) => Promise<string>
}

const clients: Readonly<Record<string, Client>> = {
  got: {
    connect: (url) => (path) => got(url + path).text(),
  },
  ky: {
    connect: (url) => (path) => ky(url + path).text(),
  },
  'ky, which reads RateLimit-Reset as well': {
    headers: 'draft-6',
    connect: (url) => (path) => ky(url + path).text(),
  },
  'axios with axios-retry': {
    connect(url) {
      const client = axios.create({ baseURL: url, responseType: 'text' })
      axiosRetry(client, { retries: 3 })
      return async (path) => (await client.get(path)).data
    },
  },
  'undici’s RetryAgent': {
    connect(url) {
      const dispatcher = new RetryAgent(new Agent())
      return async (path) => (await request(url + path, { dispatcher })).body.text()
    },
  },
  'Octokit with its throttling plugin': {
    headers: 'github',
    connect(url) {
      const Throttled = Octokit.plugin(throttling)
      const throttle = { onRateLimit: () => true, onSecondaryRateLimit: () => false }
      const log = { debug() {}, info() {}, warn() {}, error() {} }
      const octokit = new Throttled({ baseUrl: url, throttle, log })
      return async (path) => (await octokit.request(`GET ${path}`)).data as string
    },
  },
}

const express = nodeFrameworks.find(({ name }) => name === 'Express 5')!
const handler = (): { text: string } => ({ text: 'ok' })

/** A server that records its admitted and denied requests, by path and in order. */
async function limited(limits: readonly Limit[], headers?: string) {
  const verdicts = new Map<string, boolean[]>()
  const onDecision = ({ allowed }: Decision, { url }: { url: string }): void => {
    verdicts.set(url, [...(verdicts.get(url) ?? []), allowed])
  }
  const options = { keyer: everyone, limits, onDecision, ...(headers !== undefined && { headers }) }
  return { verdicts, server: await express.serve({ limits: [options], routes: [], handler }) }
}

const paths = (count: number): string[] => Array.from({ length: count }, (_, i) => `/${i}`)

async function inTurn(ask: (path: string) => Promise<string>, count: number): Promise<string[]> {
  const bodies: string[] = []
  for (const path of paths(count)) bodies.push(await ask(path))
  return bodies
}

/** A first request can be denied. A retry after the time in the response is always admitted. */
function expectNoneAvoidable(verdicts: ReadonlyMap<string, readonly boolean[]>, count: number): void {
  expect([...verdicts.keys()].toSorted()).toEqual(paths(count).toSorted())
  for (const [path, each] of verdicts)
    expect([path, [[true], [false, true]]]).toEqual([path, expect.arrayContaining([each])])
  expect([...verdicts.values()].some(({ length }) => length > 1)).toBe(true)
}

/** So long that also on a busy machine the third request comes within a window. */
const shapes: readonly (readonly Limit[])[] = [
  [fixedWindow({ quota: 2, window: '4s' })],
  [tokenBucket({ quota: 3, window: '6s', name: 'short' }), fixedWindow({ quota: 100, window: '1h', name: 'long' })],
]

describe.concurrent('without an avoidable 429', { timeout: 60_000 }, () => {
  for (const [name, { connect, headers }] of Object.entries(clients)) {
    test(`${name} gets all responses in order`, async ({ expect }) => {
      const { verdicts, server } = await limited(shapes[0]!, headers)
      expect(await inTurn(connect(server.url), 4)).toEqual(Array(4).fill('ok'))
      expectNoneAvoidable(verdicts, 4)
      await server.close()
    })

    for (const limits of shapes) {
      test(`${name} gets four concurrent responses with ${limits.map((each) => each.algorithm).join(' and ')}`, async ({
        expect,
      }) => {
        const { verdicts, server } = await limited(limits, headers)
        const bodies = await Promise.all(paths(4).map(connect(server.url)))
        expect(bodies).toEqual(Array(4).fill('ok'))
        expectNoneAvoidable(verdicts, 4)
        await server.close()
      })
    }
  }
})

test.each(['draft-6', 'draft-7', 'legacy', 'github'])('ratelimit-header-parser 0.1.0 reads %s', async (headers) => {
  const limits = fixedWindow({ quota: 2, window: '1h' })
  const server = await express.serve({ limits: [{ keyer: everyone, limits, headers }], routes: [], handler })
  for (const used of [1, 2, 2]) {
    const { reset, ...numbers } = parseRateLimit((await ask(server)).headers as Record<string, string>)!
    expect(numbers).toEqual({ limit: 2, used, remaining: 2 - used })
    expect(Math.abs(reset!.getTime() - Date.now() - 3_600_000)).toBeLessThan(10_000)
  }
  await server.close()
})
