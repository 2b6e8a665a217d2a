// Clients that leave a stream of the gateway of `examples/` after any of its events, over sockets and in real time.
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Gateway, startGateway } from '../../examples/llm-gateway.ts'
import { Anthropic, OpenAI } from '../support/clients.ts'
import { streamOf, USAGE } from '../support/model-streams.ts'

/** A model that sends some events, and then nothing more until the request is aborted. */
interface Model {
  readonly server: Server
  readonly url: string
  events: readonly string[]
  open: number
}

async function startModel(): Promise<Model> {
  const server = createServer((_request, response) => {
    model.open++
    response.on('close', () => model.open--)
    response.setHeader('Content-Type', 'text/event-stream')
    response.flushHeaders()
    for (const event of model.events) response.write(event)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const model: Model = { server, url, events: [], open: 0 }
  return model
}

let model: Model
let gateway: Gateway
beforeAll(async () => {
  model = await startModel()
  gateway = await startGateway(model.url)
})
afterAll(() => {
  for (const { server } of [gateway, model]) {
    server.closeAllConnections()
    server.close()
  }
})

const LEFT = ['tokens', 'running'] as const

async function left(): Promise<Record<(typeof LEFT)[number], number>> {
  const response = await fetch(`${gateway.url}/v1/usage`, { headers: { 'x-api-key': 'key-of-bob' } })
  return (await response.json()) as Record<(typeof LEFT)[number], number>
}

const messages = [{ role: 'user' as const, content: 'hello' }]

/** Starts a stream with the official client, reads it, and returns how to abort it. */
async function start(api: 'chat' | 'messages', most: number): Promise<AbortController> {
  const options = { apiKey: 'key-of-bob', maxRetries: 0 }
  const stream =
    api === 'chat'
      ? await new OpenAI({ ...options, baseURL: `${gateway.url}/v1` }).chat.completions.create({
          model: 'large',
          messages,
          max_completion_tokens: most,
          stream: true,
        })
      : await new Anthropic({ ...options, baseURL: gateway.url }).messages.create({
          model: 'large',
          messages,
          max_tokens: most,
          stream: true,
        })
  const readAll = async (): Promise<void> => {
    for await (const _ of stream);
  }
  readAll().catch(() => {})
  return stream.controller
}

/** Returns what a stream was charged that its client has left, and what was reserved for it. */
async function chargeOf(api: 'chat' | 'messages', events: readonly string[], most: number) {
  model.events = events
  const before = await left()
  const controller = await start(api, most)
  const reserved = before.tokens - (await left()).tokens
  await pause(5)
  controller.abort()
  for (let i = 0; i < 400 && (model.open > 0 || (await left()).running < before.running); i++) await pause(5)
  expect(model.open).toBe(0)
  await pause(5)
  return { reserved, charged: before.tokens - (await left()).tokens }
}

test.each(['chat', 'messages'] as const)(
  'a stream of %s is never charged less than what was reserved and seen',
  { timeout: 120_000 },
  async (api) => {
    // test/llm/meter.test.ts cuts streams of all kinds.
    for (const kind of ['chinese', 'tool'] as const) {
      const { events, tokens, usageAt } = streamOf(api, kind, 5)
      for (let cut = 0; cut <= events.length; cut++) {
        const { reserved, charged } = await chargeOf(api, events.slice(0, cut), cut % 2 === 0 ? 1 : 200)
        const title = `${kind}, cut after ${cut} events`
        expect(reserved, title).toBeGreaterThan(0)
        if (cut > usageAt) expect(charged, title).toBe(USAGE.input + USAGE.output)
        else expect(charged, title).toBeGreaterThanOrEqual(Math.max(reserved, tokens[cut]!))
      }
    }
  },
)
