// The official clients of OpenAI and Anthropic against the gateway of `examples/`, over sockets and in real time.
import type { Server } from 'node:http'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import {
  type FakeModel,
  type Gateway,
  promptTokens as countTokens,
  startGateway,
  startModel,
} from '../../examples/llm-gateway.ts'
import {
  createLimiter,
  type Decision,
  fixedWindow,
  gcra,
  type Limit,
  type Limiter,
  memoryStore,
  slidingWindowBuckets,
  slidingWindowLog,
  tokenBucket,
} from '../../src/index.ts'
import { virtualClock, type VirtualClock } from '../../src/testing.ts'
import { Anthropic, type ModelError, OpenAI } from '../support/clients.ts'
import { serveForTest } from '../support/http.ts'
import { readPage } from '../support/pages.ts'

let model: FakeModel
let gateway: Gateway
beforeEach(async () => {
  model = await startModel()
  gateway = await startGateway(model.url, { maxWait: '300ms' })
})
afterEach(() => {
  for (const { server } of [gateway, model]) close(server)
})

function close(server: Server): void {
  server.closeAllConnections()
  server.close()
}

interface Left {
  readonly requests: number
  readonly tokens: number
  readonly budget: number
  readonly running: number
}

async function left(key: string): Promise<Left> {
  const response = await fetch(`${gateway.url}/v1/usage`, { headers: { 'x-api-key': key } })
  return (await response.json()) as Left
}

/** Waits until no slot is used: the gateway settles an answer when its connection is done with it. */
async function leftAtEnd(key: string, running: number): Promise<Left> {
  for (let i = 0; i < 1000; i++) {
    const known = await left(key)
    if (known.running === running) return known
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  throw new Error('slots are still used')
}

/** Replaces options of the limits with a name. */
function change(name: string, options: Readonly<Record<string, string | number>>): void {
  const policies = gateway.rules.current.policies.map((policy) => ({
    ...policy,
    ...(policy.limits && {
      limits: policy.limits.map((limit) => (limit.name === name ? { ...limit, ...options } : limit)),
    }),
  }))
  gateway.rules.replace({ policies })
}

interface Spoken {
  readonly text: string
  /** All tokens, if the answer says them. */
  readonly tokens?: number
}

interface Options {
  readonly most?: number
  readonly model?: string
  readonly maxRetries?: number
}

interface Client {
  whole(prompt: string, options?: Options): Promise<Spoken>
  /** Calls back with each text. */
  stream(
    prompt: string,
    options?: Options & { each?(text: string, controller: AbortController): void },
  ): Promise<Spoken>
  readonly error: ModelError
}

/** Returns the body that the gateway estimates, of which the model counts a part. */
const messagesOf = (prompt: string) => [{ role: 'user' as const, content: prompt }]

const clients: Readonly<Record<string, (key: string) => Client>> = {
  openai: (apiKey) => {
    const connect = (maxRetries = 0) => new OpenAI({ apiKey, baseURL: `${gateway.url}/v1`, maxRetries })
    return {
      async whole(prompt, { most = 1000, model: name = 'large', maxRetries } = {}) {
        const body = { model: name, messages: messagesOf(prompt), max_completion_tokens: most }
        const { choices, usage } = await connect(maxRetries).chat.completions.create(body)
        return { text: choices[0]!.message.content!, tokens: usage!.total_tokens }
      },
      async stream(prompt, { most = 1000, model: name = 'large', maxRetries, each } = {}) {
        const body = { model: name, messages: messagesOf(prompt), max_completion_tokens: most, stream: true } as const
        const events = await connect(maxRetries).chat.completions.create(body)
        let text = ''
        for await (const { choices } of events) {
          // Programs of this client read the first choice of each event.
          text += choices[0]!.delta.content ?? ''
          each?.(text, events.controller)
        }
        return { text }
      },
      error: OpenAI.RateLimitError,
    }
  },
  '@anthropic-ai/sdk': (apiKey) => {
    const connect = (maxRetries = 0) => new Anthropic({ apiKey, baseURL: gateway.url, maxRetries })
    return {
      async whole(prompt, { most = 1000, model: name = 'large', maxRetries } = {}) {
        const body = { model: name, messages: messagesOf(prompt), max_tokens: most }
        const { content, usage } = await connect(maxRetries).messages.create(body)
        const [first] = content
        return { text: first?.type === 'text' ? first.text : '', tokens: usage.input_tokens + usage.output_tokens }
      },
      async stream(prompt, { most = 1000, model: name = 'large', maxRetries, each } = {}) {
        const body = { model: name, messages: messagesOf(prompt), max_tokens: most, stream: true } as const
        const events = await connect(maxRetries).messages.create(body)
        let [text, tokens] = ['', 0]
        for await (const event of events) {
          if (event.type === 'message_start') tokens += event.message.usage.input_tokens
          if (event.type === 'message_delta') tokens += event.usage.output_tokens
          if (event.type !== 'content_block_delta' || event.delta.type !== 'text_delta') continue
          text += event.delta.text
          each?.(text, events.controller)
        }
        return { text, tokens }
      },
      error: Anthropic.RateLimitError,
    }
  },
}

const WORD = 'yes '
const free = { requests: 20, tokens: 5000, budget: 20_000, running: 2 }
const pro = { requests: 600, tokens: 200_000, budget: 50_000_000, running: 50 }

/** Checks what is left of Ann's limits after one request. */
async function expectPaid(tokens: number): Promise<void> {
  const expected = { requests: 19, tokens: free.tokens - tokens, budget: free.budget - tokens, running: 2 }
  expect(await leftAtEnd('key-of-ann', 2)).toEqual(expected)
}

/** The tokens of a prompt, as the model counts them. */
function promptTokens(prompt: string): number {
  return countTokens(JSON.stringify(messagesOf(prompt)))
}

describe.each(Object.entries(clients))('%s', (name, connect) => {
  test('gets whole answers, and pays what the model has counted', async () => {
    const { text, tokens } = await connect('key-of-ann').whole('Say 7 words')
    expect(text).toBe(WORD.repeat(7))
    expect(tokens).toBe(promptTokens('Say 7 words') + 7)
    await expectPaid(tokens!)
  })

  test('gets streamed answers, and pays what the model has counted', async () => {
    const { text } = await connect('key-of-ann').stream('Say 30 words')
    expect(text).toBe(WORD.repeat(30))
    await expectPaid(promptTokens('Say 30 words') + 30)
  })

  test('backs off as retry-after-ms says, and then succeeds', { timeout: 60_000 }, async () => {
    change('requests', { quota: 1, window: '4s', buckets: 1 })
    const statuses: number[] = []
    const told: number[] = []
    const times: number[] = []
    gateway.server.on('request', (_request, response) => {
      times.push(performance.now())
      response.on('finish', () => {
        statuses.push(response.statusCode)
        told.push(Number(response.getHeader('retry-after-ms')))
      })
    })
    const client = connect('key-of-bob')
    const spoken = [await client.whole('Say 1 word'), await client.whole('Say 2 words', { maxRetries: 2 })]
    expect(spoken.map(({ text }) => text)).toEqual([WORD, WORD.repeat(2)])
    expect(statuses.filter((status) => status === 200).length).toBe(2)
    const denials = statuses.flatMap((status, i) => (status === 429 ? [i] : []))
    expect(denials.length).toBeGreaterThan(0)
    for (const i of denials) {
      expect(told[i]).toBeGreaterThan(300)
      // A timer of Node may fire a millisecond early.
      expect(times[i + 1]! - times[i]!).toBeGreaterThanOrEqual(told[i]! - 2)
    }
    // A denied attempt has charged nothing.
    const tokens = promptTokens('Say 1 word') + promptTokens('Say 2 words') + 3
    expect(await leftAtEnd('key-of-bob', 50)).toMatchObject({ tokens: pro.tokens - tokens })
  })

  test('gets an error of its own kind, with its own headers, when it uses too many tokens', async () => {
    const client = connect('key-of-ann')
    await client.whole('Say 500 words')
    const thrown: unknown = await client.whole('Say 1 word', { most: 4900 }).catch((reason: unknown) => reason)
    expect(thrown).toBeInstanceOf(client.error)
    const { status, headers, message } = thrown as InstanceType<typeof client.error>
    expect(status).toBe(429)
    // The client finds the error in the body. Otherwise its message is "429 status code (no body)".
    expect(message).toMatch(/^429 .*Rate limit reached: tokens\. Try again in /s)
    const used = promptTokens('Say 500 words') + 500
    const [limit, remaining] =
      name === 'openai'
        ? ['x-ratelimit-limit-tokens', 'x-ratelimit-remaining-tokens']
        : ['anthropic-ratelimit-tokens-limit', 'anthropic-ratelimit-tokens-remaining']
    expect([headers.get(limit!), headers.get(remaining!)]).toEqual(['5000', String(free.tokens - used)])
    expect(Number(headers.get('retry-after-ms'))).toBeGreaterThan(0)
    expect(await left('key-of-ann')).toMatchObject({ requests: 19, tokens: free.tokens - used, running: 2 })
  })

  test('gets answers of another model while the first one wants no requests', async () => {
    model.busy.add('large')
    const client = connect('key-of-ann')
    for (const words of [1, 2, 3]) expect((await client.whole(`Say ${words} words`)).text).toBe(WORD.repeat(words))
    expect(model.asked).toEqual(['large', 'small', 'small', 'small'])
    model.busy.clear()
    await new Promise((resolve) => setTimeout(resolve, 1100))
    await client.whole('Say 4 words')
    expect(model.asked.at(-1)).toBe('large')
  })

  test('is charged once when it tries again after all models have failed', async () => {
    model.failing.add('large').add('small')
    gateway.server.on('request', (_request, response) => response.on('finish', () => model.failing.clear()))
    const { text, tokens } = await connect('key-of-ann').stream('Say 5 words', { maxRetries: 2 })
    expect(text).toBe(WORD.repeat(5))
    expect(model.asked).toEqual(['large', 'small', 'large'])
    const used = promptTokens('Say 5 words') + 5
    if (tokens !== undefined) expect(tokens).toBe(used)
    await expectPaid(used)
  })

  test('pays no tokens for an answer from the cache', async () => {
    const client = connect('key-of-ann')
    const first = await client.whole('Say 5 words')
    expect(await client.whole('Say 5 words')).toEqual(first)
    expect(model.asked).toEqual(['large'])
    expect(await leftAtEnd('key-of-ann', 2)).toMatchObject({ requests: 18, tokens: free.tokens - first.tokens! })
    // Another customer has another cache.
    await connect('key-of-bob').whole('Say 5 words')
    expect(model.asked).toEqual(['large', 'large'])
  })

  test('leaves no slot held after many requests at a time, some of them aborted', { timeout: 60_000 }, async () => {
    const client = connect('key-of-bob')
    const kinds = Array.from({ length: 150 }, async (_, i) => {
      if (i % 3 === 0) return client.whole(`Say ${i + 1} words`)
      if (i % 3 === 1) return client.stream(`Say ${i + 1} words`)
      return client.stream(`Say ${i + 1} words and wait`, {
        each: (text, controller) => void (text.length > 8 && controller.abort()),
      })
    })
    const ended = await Promise.allSettled(kinds)
    const statuses = ended.flatMap((each) => (each.status === 'rejected' ? [(each.reason as Error).message] : []))
    for (const message of statuses) expect(message).toMatch(/^429 .*Rate limit reached: running/s)
    const known = await leftAtEnd('key-of-bob', 50)
    expect(known.requests).toBe(pro.requests - 150 + statuses.length)
    expect(pro.tokens - known.tokens).toBe(pro.budget - known.budget)
    // Only the streams that were aborted keep their reservations of 1,000 tokens and a prompt.
    expect(pro.tokens - known.tokens).toBeLessThan(50 * 1150 + 100 * 150)
  })
})

test.each([
  ['with CRLF', (text: string) => text.replaceAll('\n', '\r\n')],
  ['without a space after data:', (text: string) => text.replaceAll('data: ', 'data:')],
  ['without an empty line at the end', (text: string) => text.trimEnd()],
])('a stream %s reaches the client whole, without the usage', async (_title, format) => {
  const events = [
    { choices: [{ index: 0, delta: { content: 'yes' }, finish_reason: 'stop' }] },
    { choices: [], usage: { prompt_tokens: 5, completion_tokens: 1 } },
  ]
  const data = [...events.map((event) => JSON.stringify(event)), '[DONE]'].map((each) => `data: ${each}\n\n`)
  const { url } = await serveForTest((_request, response) => {
    for (const byte of format(data.join(''))) response.write(byte)
    response.end()
  })
  const own = await startGateway(url)
  onTestFinished(() => close(own.server))
  const body = JSON.stringify({ model: 'large', messages: messagesOf('Say 1 word'), max_tokens: 9, stream: true })
  const headers = { Authorization: 'Bearer key-of-ann', 'Content-Type': 'application/json' }
  const answer = await fetch(`${own.url}/v1/chat/completions`, { method: 'POST', headers, body })
  const sent = (await answer.text()).split('\n\n').map((event) => event.replace(/^data: ?/, ''))
  expect(sent).toEqual([JSON.stringify(events[0]), '[DONE]', ''])
})

test('unknown keys and wrong bodies are refused before anything is charged', async () => {
  const send = async (key: string, body: object): Promise<number> => {
    const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' }
    const url = `${gateway.url}/v1/chat/completions`
    return (await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })).status
  }
  const body = { model: 'large', messages: messagesOf('Say 1 word') }
  expect(await send('key-of-eve', body)).toBe(401)
  const wrong = [{ n: 2 }, { max_tokens: -1 }, { max_tokens: 1e9 }, { max_tokens: '5' }, { stream: 'no' }, { model: 1 }]
  for (const each of [...wrong, { max_tokens: 1, max_completion_tokens: 9 }])
    expect(await send('key-of-ann', { ...body, ...each })).toBe(400)
  expect(await left('key-of-ann')).toEqual(free)
  expect(await send('key-of-ann', { ...body, n: null, stream: null, max_tokens: null })).toBe(200)
})

describe('the numbers in the guide', () => {
  const base = { quota: 100_000, window: '1m', name: 'tokens' } as const
  const algorithms: Readonly<Record<string, Limit>> = {
    slidingWindowBuckets: slidingWindowBuckets({ ...base, buckets: 60 }),
    'slidingWindowBuckets, 60 buckets': slidingWindowBuckets({ ...base, buckets: 60 }),
    'slidingWindowBuckets, 10 buckets': slidingWindowBuckets({ ...base, buckets: 10 }),
    slidingWindowLog: slidingWindowLog(base),
    fixedWindow: fixedWindow(base),
    gcra: gcra(base),
    tokenBucket: tokenBucket(base),
  }
  const guide = readPage('docs/guides/language-models.md')
  const number = (text: string): number => Number(text.replaceAll(',', ''))

  /** Returns the rows of the table whose first row begins with a text, without it, and with plain cells. */
  function rowsOf(head: string): readonly (readonly string[])[] {
    const table = guide.slice(guide.indexOf(`| ${head} `)).split('\n\n')[0]!
    const cellsOf = (line: string): string[] => line.split('|').map((cell) => cell.replaceAll('`', '').trim())
    return table
      .split('\n')
      .map((line) => cellsOf(line).slice(1, -1))
      .filter(([first]) => !first!.startsWith('-'))
  }

  function start(limits: Limit): readonly [Limiter<string, Decision>, VirtualClock] {
    const clock = virtualClock()
    return [createLimiter({ keyer: (key: string) => key, limits, store: memoryStore({ clock }) }), clock]
  }

  /** Reserves ten times 4,000 tokens, and returns what is used after a pause, and after settling each at 1,000. */
  function used(limits: Limit, seconds: number): readonly [before: number, after: number] {
    const [limiter, clock] = start(limits)
    const now = (): number => limiter.peek('ann', { cost: 0 }).limits[0]!.used
    const decisions = Array.from({ length: 10 }, () => limiter.consume('ann', { cost: 4000 }))
    clock.advance(seconds * 1000)
    const before = now()
    for (const decision of decisions) limiter.settle(decision, 1000)
    return [before, now()]
  }

  test('are right for ten reservations of 4,000 tokens that are settled at 1,000', () => {
    const [head, ...rows] = rowsOf('settled after')
    expect(rows).toHaveLength(4)
    for (const [time, ...cells] of rows) {
      const seconds = Number(time!.replace(' s', ''))
      for (const name of head![1]!.split(', ')) expect(used(algorithms[name]!, seconds)[1]).toBe(number(cells[0]!))
      for (const name of head![2]!.split(', ')) expect(used(algorithms[name]!, seconds)[1]).toBe(number(cells[1]!))
      expect(used(algorithms['gcra']!, seconds)[0]).toBe(number(cells[2]!))
    }
    // The algorithm of the example is exact.
    const settled = [0, 0.1, 2, 5, 30, 58].map((seconds) => used(algorithms['slidingWindowBuckets']!, seconds)[1])
    expect(settled).toEqual(Array(6).fill(10_000))
  })

  /** A customer sends as soon as possible, for ten minutes. Each answer takes five seconds. */
  function tokensPerMinute(limits: Limit): readonly [mean: number, most: number] {
    const [limiter, clock] = start(limits)
    const open: { readonly decision: Decision; readonly end: number }[] = []
    const starts: number[] = []
    let answers = 0
    for (let now = 0; now < 600_000; now += 100) {
      while (open.length > 0 && open[0]!.end <= now) {
        limiter.settle(open.shift()!.decision, 1000)
        answers++
      }
      let decision = limiter.consume('ann', { cost: 4000 })
      for (; decision.allowed; decision = limiter.consume('ann', { cost: 4000 })) {
        open.push({ decision, end: now + 5000 })
        starts.push(now)
      }
      clock.advance(100)
    }
    const inMinutes = starts.map((time) => starts.filter((each) => each >= time && each < time + 60_000).length)
    return [answers * 100, Math.max(...inMinutes) * 1000]
  }

  test('are right for a customer who always sends as soon as possible', () => {
    const [, ...rows] = rowsOf('algorithm')
    expect(rows).toHaveLength(5)
    for (const [names, mean, most] of rows) {
      const each = Object.hasOwn(algorithms, names!) ? [names!] : names!.split(', ')
      for (const name of each) expect(tokensPerMinute(algorithms[name]!), name).toEqual([number(mean!), number(most!)])
    }
  })
})
