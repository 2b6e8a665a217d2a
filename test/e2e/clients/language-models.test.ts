// The official clients of OpenAI and Anthropic against a gateway, over sockets and in real time.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { describe, expect, test } from 'vitest'
import { rateLimit } from '../../../adapters/node/index.ts'
import { everyone, fixedWindow } from '../../../src/index.ts'
import { denialBody, type ModelApi } from '../../../src/llm/index.ts'
import { Anthropic, type ModelError, OpenAI } from '../../support/clients.ts'
import { serveForTest, until } from '../../support/http.ts'

/** An attempt of a client, as the server saw it. */
interface Attempt {
  readonly at: number
  readonly allowed: boolean
  /** The wait that the response told the client, in milliseconds. */
  readonly told: number
}

/** Starts a server that answers like a model's API. It admits one request in each window. */
async function gateway(
  style: ModelApi,
  answer: object,
  window: '2s' | '1h',
): Promise<[url: string, readonly Attempt[]]> {
  const attempts: Attempt[] = []
  const limit = rateLimit({
    keyer: everyone,
    limits: [
      fixedWindow({ name: 'requests', quota: 1, window }),
      fixedWindow({ name: 'tokens', quota: 1000, window: '1h' }),
    ],
    headers: style,
    message: denialBody(style),
  })
  const handler = limit((_request: IncomingMessage, response: ServerResponse) => {
    response.setHeader('Content-Type', 'application/json')
    response.end(JSON.stringify(answer))
  })
  const { url } = await serveForTest((request, response) => {
    const at = performance.now()
    response.on('finish', () => {
      attempts.push({ at, allowed: response.statusCode === 200, told: Number(response.getHeader('retry-after-ms')) })
    })
    handler(request, response)
  })
  return [url, attempts]
}

interface Client {
  readonly style: ModelApi
  readonly answer: object
  /** Returns a function that asks the model and returns its text. */
  connect(url: string, maxRetries: number): () => Promise<string | null | undefined>
  /** The error of the client for status 429. */
  readonly error: ModelError
  readonly headers: Readonly<Record<string, unknown>>
}

const clients: Readonly<Record<string, Client>> = {
  openai: {
    style: 'openai',
    answer: {
      id: 'chatcmpl-1',
      object: 'chat.completion',
      created: 1,
      model: 'test',
      choices: [{ index: 0, message: { role: 'assistant', content: 'hello' }, finish_reason: 'stop' }],
    },
    connect(url, maxRetries) {
      const client = new OpenAI({ apiKey: 'test', baseURL: `${url}/v1`, maxRetries })
      return async () => {
        const messages = [{ role: 'user', content: 'hi' }] as const
        return (await client.chat.completions.create({ model: 'test', messages: [...messages] })).choices[0]?.message
          .content
      }
    },
    error: OpenAI.RateLimitError,
    headers: {
      'x-ratelimit-limit-requests': '1',
      'x-ratelimit-remaining-requests': '0',
      'x-ratelimit-reset-requests': expect.stringMatching(/^(\d+m)?[\d.]+m?s$/),
      'x-ratelimit-limit-tokens': '1000',
      'x-ratelimit-remaining-tokens': '999',
      'x-ratelimit-reset-tokens': expect.stringMatching(/^(1h0m0s|59m[\d.]+s)$/),
    },
  },
  '@anthropic-ai/sdk': {
    style: 'anthropic',
    answer: {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: 'test',
      content: [{ type: 'text', text: 'hello' }],
      stop_reason: 'end_turn',
      stop_sequence: null,
      usage: { input_tokens: 1, output_tokens: 1 },
    },
    connect(url, maxRetries) {
      const client = new Anthropic({ apiKey: 'test', baseURL: url, maxRetries })
      return async () => {
        const messages = [{ role: 'user', content: 'hi' }] as const
        const { content } = await client.messages.create({ model: 'test', max_tokens: 9, messages: [...messages] })
        return content[0]?.type === 'text' ? content[0].text : undefined
      }
    },
    error: Anthropic.RateLimitError,
    headers: {
      'anthropic-ratelimit-requests-limit': '1',
      'anthropic-ratelimit-requests-remaining': '0',
      'anthropic-ratelimit-requests-reset': expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
      'anthropic-ratelimit-tokens-limit': '1000',
      'anthropic-ratelimit-tokens-remaining': '999',
      'anthropic-ratelimit-tokens-reset': expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
    },
  },
}

/** A timer of Node may fire a millisecond early. */
const EARLY = 2

describe.each(Object.entries(clients))('%s', (_, { style, answer, connect, error, headers }) => {
  // Without the headers, a client waits at most 0.5 seconds before its first retry, and at most 1 second before the second one.
  test('waits as long as retry-after-ms says, and then succeeds', { timeout: 60_000 }, async () => {
    const [url, attempts] = await gateway(style, answer, '2s')
    const ask = connect(url, 2)
    expect([await ask(), await ask(), await ask()]).toEqual(['hello', 'hello', 'hello'])
    await until(() => attempts.at(-1)?.allowed === true, 'the end of the last response')
    expect(attempts.filter(({ allowed }) => allowed)).toHaveLength(3)
    expect(attempts.length).toBeGreaterThan(3)
    for (const [i, { at, allowed, told }] of attempts.entries()) {
      if (allowed) continue
      expect(told).toBeGreaterThan(0)
      expect(told).toBeLessThanOrEqual(2000)
      expect(attempts[i + 1]!.at - at).toBeGreaterThanOrEqual(told - EARLY)
    }
  })

  test('gets an error with status 429 and all headers', async () => {
    const [url, attempts] = await gateway(style, answer, '1h')
    const ask = connect(url, 0)
    expect(await ask()).toBe('hello')
    const thrown: unknown = await ask().catch((reason: unknown) => reason)
    expect(thrown).toBeInstanceOf(error)
    const denied = thrown as InstanceType<typeof error>
    expect(denied.status).toBe(429)
    // The client finds the error in the body. Otherwise its message is "429 status code (no body)".
    expect(denied.message).toMatch(/^429 .*Rate limit reached: requests\. Try again in \d+ (minutes|hour)/s)
    expect(Object.fromEntries(denied.headers)).toMatchObject(headers)
    const [ms, seconds] = [Number(denied.headers.get('retry-after-ms')), Number(denied.headers.get('retry-after'))]
    expect(Math.ceil(ms / 1000)).toBe(seconds)
    await until(() => attempts.length === 2, 'the end of the second response')
    expect(attempts.map(({ allowed }) => allowed)).toEqual([true, false])
  })
})
