// Run it: npm run build && npm run build:examples && node dist/examples/llm-gateway.js
// With Node 22.18 or newer also: npm run build && node examples/llm-gateway.ts
//
// A gateway of language models. For each customer it limits requests per minute, tokens per minute, tokens per month, and requests that
// run at the same time. All of them are decided in one step: a request is charged to every limit, or to none.
//
// Which algorithm counts the tokens? The gateway reserves an estimate, and settles the actual tokens when the answer has ended. So most of
// a reservation is refunded, seconds later. `slidingWindowBuckets`, `slidingWindowLog` and `fixedWindow` know how many units a charge still
// has, and refund exactly these. `gcra` and `tokenBucket` only know a level, which drains from the first moment, and refund what cannot have
// drained since. Ten reservations of 4,000 tokens under 100,000 a minute, settled at 1,000 each after three seconds, should leave 10,000 used:
// `slidingWindowBuckets` leaves 10,000 used, and `gcra` 35,000, because 5,000 have drained, and it refunds nothing.
import express, { type Request, type RequestHandler, type Response } from 'express'
import { subscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text as textOf } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import {
  createLimiter,
  type Decision,
  type Duration,
  type Limit,
  type Limiter,
  perMinute,
  type ThresholdEvent,
} from 'sluice'
import { rateLimit } from 'sluice/express'
import { answerTokens, denialBody, estimateTokens, usageMeter, type UsageMeter } from 'sluice/llm'
import { createRules, type PolicyRule, type Rules } from 'sluice/rules'

// ── The limits ──

/** What a plan allows to each of its customers. */
interface Plan {
  readonly requests: number
  readonly tokens: number
  readonly budget: number
  readonly running: number
}

const plans: Readonly<Record<string, Plan>> = {
  free: { requests: 20, tokens: 5000, budget: 20_000, running: 2 },
  pro: { requests: 600, tokens: 200_000, budget: 50_000_000, running: 50 },
}

/** Returns the policies of a plan. They are data: this document can also be in a file or in Redis, and be replaced while the gateway runs. */
function policiesOf(plan: string, { requests, tokens, budget, running }: Plan): PolicyRule[] {
  const match = { attributes: { plan } }
  const key = 'attribute:customer'
  const perMinute = { algorithm: 'slidingWindowBuckets', window: '1m', buckets: 60 } as const
  const perMonth = { algorithm: 'fixedWindow', window: '1mo', anchor: 'calendar' } as const
  return [
    {
      name: `${plan} requests`,
      match,
      key,
      limits: [
        { ...perMinute, name: 'requests', quota: requests },
        // The slots of a gateway that was killed are free after the lease. The middleware renews it while an answer is sent.
        { algorithm: 'concurrent', name: 'running', quota: running, expiresAfter: '30s' },
      ],
    },
    {
      name: `${plan} tokens`,
      match,
      key,
      cost: 'tokens',
      limits: [
        // An estimate above the limit reserves the whole limit, and is not denied for ever.
        { ...perMinute, name: 'tokens', quota: tokens, capCost: true },
        { ...perMonth, name: 'budget', quota: budget, capCost: true, notifyAt: [0.8, 1] },
      ],
    },
  ]
}

/** Replace this with your customers. */
const customers = new Map([
  ['key-of-ann', { id: 'ann', plan: 'free' }],
  ['key-of-bob', { id: 'bob', plan: 'pro' }],
])

/** A client sends its key as a bearer, or in the header of Anthropic. */
function customerOf(request: Request): { readonly id: string; readonly plan: string } | undefined {
  const bearer = /^Bearer (.+)$/i.exec(request.get('authorization') ?? '')?.[1]
  return customers.get(request.get('x-api-key') ?? bearer ?? '')
}

/** Where a request goes if its model fails. */
const fallbacks = new Map([['large', 'small']])

// ── Tokens ──

/** A customer can leave out the most tokens of an answer. The model then gets this number. */
const MOST_TOKENS = 1000
/** What the rules read of a request. */
interface Attributes {
  readonly customer: string
  readonly plan: string
  /** What is reserved: the estimate of the prompt, and the most tokens of the answer. */
  readonly tokens: number
}

/** A request to a model, and what it has used until now. */
interface Call extends Attributes {
  readonly body: Body
  /** Counts the tokens of the answer. */
  readonly meter: UsageMeter
  /** `'asked'` from the moment when a model may work for the client; `'free'` for an answer that uses no tokens. */
  state: 'waiting' | 'asked' | 'free' | 'failed'
  /** Ends with the request to the model: soon after the client has gone, and at the latest after `LONGEST_ANSWER`. */
  work?: Promise<void>
  isDone: boolean
}

/** Returns the actual cost of a request under a limit. */
function actualCost({ state, meter }: Call): (limit: Limit) => number {
  // No model has answered, so the client can try again, and is charged for the attempt that succeeds only.
  if (state === 'failed' || state === 'waiting') return () => 0
  const tokens = state === 'free' ? 0 : meter.cost
  return ({ name }) => (name === 'tokens' || name === 'budget' ? tokens : 1)
}

/** Settles a request when its model has ended, which is after the response if the client has gone. */
function settled(call: Call): ReturnType<typeof actualCost> | Promise<ReturnType<typeof actualCost>> {
  return call.isDone ? actualCost(call) : Promise.resolve(call.work).then(() => actualCost(call))
}

// ── The two APIs ──

/** JSON of a client or of a model: nothing about it is certain. */
type Json = Readonly<Record<string, unknown>>
type Body = Json & { readonly model: string; readonly stream: boolean }

function json(value: unknown): Json {
  return typeof value === 'object' && value !== null ? (value as Json) : {}
}

interface Api {
  readonly path: string
  readonly style: 'openai' | 'anthropic'
  /** The fields with the most tokens of an answer. The first one is set if the client has set none. */
  readonly most: readonly [string, ...string[]]
  /** What the model is asked for in addition, with each streamed answer. */
  readonly more: Json
  error(type: string, message: string): Json
  /** Returns whether the client gets an event. */
  isAsked(event: Json, asked: Json): boolean
}

const apis: readonly Api[] = [
  {
    path: '/v1/chat/completions',
    style: 'openai',
    most: ['max_completion_tokens', 'max_tokens'],
    // Without it, a streamed answer does not say how many tokens it has used.
    more: { stream_options: { include_usage: true } },
    error: (type, message) => ({ error: { type, message, code: type, param: null } }),
    isAsked: ({ choices }, { stream_options: options }) =>
      (Array.isArray(choices) && choices.length > 0) || json(options).include_usage === true,
  },
  {
    path: '/v1/messages',
    style: 'anthropic',
    most: ['max_tokens'],
    more: {},
    error: (type, message) => ({ type: 'error', error: { type, message } }),
    isAsked: () => true,
  },
]

// ── The gateway ──

const MOST_CACHED = 1000
const LONGEST_ANSWER = 10 * 60_000

/** The models, and how many requests each of them gets. One that answers 429 gets none for as long as it says. */
interface Models {
  readonly url: string
  readonly limiter: Limiter<string, Decision>
}
const LONGEST_PAUSE = 60_000

/** A gateway that listens. */
export interface Gateway {
  readonly server: Server
  readonly url: string
  /** Replace the document, and new requests have other limits. */
  readonly rules: Rules<Request>
}

interface GatewayOptions {
  readonly port?: number
  /** How long a request waits for its turn. Default `'2s'`. */
  readonly maxWait?: Duration
}

/** Starts the gateway in front of the model at a URL. */
export async function startGateway(
  modelUrl: string,
  { port = 0, maxWait = '2s' }: GatewayOptions = {},
): Promise<Gateway> {
  const attributes = new WeakMap<Request, Attributes>()
  const calls = new WeakMap<Request, Call>()
  const cache = new Map<string, Json>()
  const rules = createRules(
    {
      policies: Object.entries(plans).flatMap(([name, plan]) => policiesOf(name, plan)),
      // A customer without a known plan.
      otherwise: { key: 'attribute:customer', limits: [{ quota: 20, window: '1m' }] },
    },
    { attributes: (request: Request) => ({ ...attributes.get(request) }) },
  )
  // With several gateways, add `store: redisStore(client)`.
  const limiter = createLimiter({ name: 'gateway', rules })
  const modelLimiter = createLimiter({ name: 'models', keyer: (model: string) => model, limits: perMinute(10_000) })
  const models: Models = { url: modelUrl, limiter: modelLimiter }
  const app = express()

  for (const api of apis) {
    /** Finds the customer, and checks the request, before anything is charged. */
    const prepare: RequestHandler = (request, response, next) => {
      const customer = customerOf(request)
      const body = bodyOf(api, request.body)
      if (customer === undefined) {
        response.status(401).json(api.error('authentication_error', 'unknown key'))
      } else if (typeof body === 'string') {
        response.status(400).json(api.error('invalid_request_error', body))
      } else {
        const tokens = estimateTokens(body) + answerTokens(body, MOST_TOKENS)
        const { id, plan } = customer
        const read = { customer: id, plan, tokens }
        attributes.set(request, read)
        calls.set(request, { ...read, body, meter: usageMeter({ reserved: tokens }), state: 'waiting', isDone: false })
        next()
      }
    }

    const limit = rateLimit({
      limiter,
      headers: api.style,
      queue: { max: 100, maxWait },
      settleWith: (request) => settled(calls.get(request)!),
      message: denialBody(api.style),
    })

    const answer = async (call: Call, response: Response): Promise<void> => {
      // One customer never sees the answer of another.
      const id = JSON.stringify([call.customer, api.path, call.body])
      const cached = cache.get(id)
      if (cached !== undefined) {
        call.state = 'free'
        response.json(cached)
        return
      }
      const whole = await answerOf(api, models, call, response)
      if (whole === undefined) return
      if (cache.size >= MOST_CACHED) cache.delete(cache.keys().next().value!)
      cache.set(id, whole)
    }
    app.post(api.path, express.json({ limit: '1mb' }), prepare, limit, (request, response, next) => {
      const call = calls.get(request)!
      call.work = answer(call, response)
        .catch(next)
        .finally(() => (call.isDone = true))
    })
  }

  /** Sends what is left of each limit. It charges nothing. */
  const usage = async (request: Request, response: Response): Promise<void> => {
    const customer = customerOf(request)
    if (customer === undefined) {
      response.sendStatus(401)
      return
    }
    attributes.set(request, { customer: customer.id, plan: customer.plan, tokens: 0 })
    const { limits } = await limiter.peek(request, { cost: 0 })
    response.json(Object.fromEntries(limits.map(({ limit, remaining }) => [limit.name, remaining])))
  }
  app.get('/v1/usage', (request, response, next) => {
    usage(request, response).catch(next)
  })

  const server = app.listen(port, '127.0.0.1')
  return { server, url: await urlOf(server), rules }
}

/** Returns the body for the model, or what is wrong with it. */
function bodyOf(api: Api, given: unknown): Body | string {
  const body = json(given)
  const { model } = body
  // OpenAI takes null for an option that is left out.
  const stream = body.stream ?? false
  const n = body.n ?? 1
  if (typeof model !== 'string' || typeof stream !== 'boolean') return 'expected a model'
  // Each further choice would cost as much as the first one.
  if (n !== 1) return 'expected one choice'
  const most = api.most.map((name) => body[name] ?? undefined).filter((value) => value !== undefined)
  const isCost = (value: unknown): boolean => Number.isSafeInteger(value) && Number(value) > 0 && Number(value) <= 1e6
  if (!most.every(isCost) || most.length > 1) return `expected ${api.most[0]} from 1 to 1,000,000`
  return { ...body, ...(most.length === 0 && { [api.most[0]]: MOST_TOKENS }), model, stream }
}

/** Sends the answer of a model to the client. Returns an answer that is whole. */
async function answerOf(api: Api, models: Models, call: Call, response: Response): Promise<Json | undefined> {
  const gone = new AbortController()
  response.on('close', () => gone.abort())
  // A model that hangs would hold the slot for ever.
  const signal = AbortSignal.any([gone.signal, AbortSignal.timeout(LONGEST_ANSWER)])
  try {
    const answer = await ask(api, models, call, signal)
    if (answer === undefined) {
      call.state = 'failed'
      response.status(502).json(api.error('api_error', 'no model answers'))
    } else if (!answer.ok) {
      // The model refuses the request, and counts no tokens.
      call.state = 'free'
      response
        .status(answer.status)
        .type('json')
        .send(await answer.text())
    } else if (call.body.stream) {
      response.set({ 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' })
      response.flushHeaders()
      await forward(api, answer, call, response, signal)
    } else {
      const whole = json(JSON.parse(await textOf(call.meter.read(answer.body))))
      call.isDone = true
      response.json(whole)
      return whole
    }
  } catch {
    // The client has gone, or the model has: then the client notices that the answer is not complete.
    response.destroy()
  }
  return undefined
}

/** Asks the model, and then another one. They share one reservation, and only the answer is charged. */
async function ask(api: Api, { url, limiter }: Models, call: Call, signal: AbortSignal) {
  const { body } = call
  for (const model of [body.model, fallbacks.get(body.model)]) {
    if (model === undefined || signal.aborted || !limiter.consume(model).allowed) continue
    // From here on, a model works for the client.
    call.state = 'asked'
    const answer = await fetch(url + api.path, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ ...body, ...(body.stream && api.more), model }),
      signal,
    }).catch(() => undefined)
    if (answer !== undefined && answer.status < 500 && answer.status !== 429) return answer
    if (answer?.status === 429) limiter.pause(model, pauseOf(answer))
    await answer?.body?.cancel()
  }
  signal.throwIfAborted()
  return undefined
}

/** Returns the milliseconds for which a model wants no requests. */
function pauseOf({ headers }: globalThis.Response): number {
  const seconds = Number(headers.get('retry-after'))
  return Math.min(LONGEST_PAUSE, Math.ceil(1000 * (seconds > 0 ? seconds : 1)))
}

/** Forwards a stream. The meter has counted each event before the client gets it, so a client may hang up at any time. */
async function forward(api: Api, { body }: globalThis.Response, call: Call, response: Response, signal: AbortSignal) {
  for await (const event of eventsOf(call.meter.read(body))) {
    signal.throwIfAborted()
    const data = json(parsed(/^data: ?(.*)$/m.exec(event)?.[1]))
    const isData = Object.keys(data).length > 0
    if (isData && !api.isAsked(data, call.body)) continue
    if (!response.write(`${event}\n\n`)) await once(response, 'drain', { signal })
  }
  call.isDone = true
  response.end()
}

async function* eventsOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  let rest = ''
  const decoder = new TextDecoder()
  for await (const chunk of body) {
    const parts = (rest + decoder.decode(chunk, { stream: true })).split(/\r?\n\r?\n/)
    rest = parts.pop()!
    yield* parts
  }
  // Some models send no empty line after the last event.
  if (rest.trim() !== '') yield rest.trim()
}

/** The last event of OpenAI is `[DONE]`. */
function parsed(text = ''): unknown {
  return text.startsWith('{') ? JSON.parse(text) : undefined
}

async function urlOf(server: Server): Promise<string> {
  if (!server.listening) await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

// ── A model that says as many words as it is asked for ──

/** A model that listens. */
export interface FakeModel {
  readonly server: Server
  readonly url: string
  /** Models that fail. */
  readonly failing: Set<string>
  /** Models that answer 429, and want no request for a second. */
  readonly busy: Set<string>
  /** The models that were asked lately. */
  readonly asked: string[]
}

/** A word is one token. */
const WORD = 'yes '

/** Returns how many tokens this model counts in a prompt. */
export function promptTokens(prompt: string): number {
  return Math.ceil(prompt.length / 4)
}

/** Starts a model. Prompts: `Say 5 words`, and `Say 5 words and wait`, whose stream does not end. */
export async function startModel(): Promise<FakeModel> {
  const failing = new Set<string>()
  const busy = new Set<string>()
  const asked: string[] = []
  const server = createServer((request, response) => {
    const answer = async (): Promise<void> => {
      const body = json(JSON.parse(await textOf(request)))
      asked.push(String(body.model))
      if (asked.length > MOST_CACHED) asked.shift()
      if (failing.has(String(body.model))) response.writeHead(500).end()
      else if (busy.has(String(body.model))) response.writeHead(429, { 'Retry-After': '1' }).end()
      else await speak(request, response, body)
    }
    answer().catch(() => response.destroy())
  }).listen(0, '127.0.0.1')
  return { server, url: await urlOf(server), failing, busy, asked }
}

async function speak({ url }: IncomingMessage, response: ServerResponse, body: Json): Promise<void> {
  const { model, stream } = body
  const prompt = JSON.stringify(body.messages)
  const most = Number(body.max_completion_tokens ?? body.max_tokens)
  const words = Math.min(most, Number(/Say (\d+)/.exec(prompt)?.[1] ?? 5))
  const tokens = [promptTokens(prompt), words] as const
  const shape = url === '/v1/messages' ? anthropic(model, ...tokens) : openai(model, ...tokens)
  if (stream !== true) {
    await pause(5)
    response.setHeader('Content-Type', 'application/json')
    response.end(JSON.stringify(shape.whole))
    return
  }
  response.setHeader('Content-Type', 'text/event-stream')
  const [start, end] = shape.stream
  response.write(start)
  for (let i = 0; i < words && !response.destroyed; i++) {
    response.write(shape.word)
    await pause(1)
  }
  if (!prompt.includes('and wait')) response.end(end)
}

interface Shape {
  readonly whole: object
  /** What is sent before the words, and after them. */
  readonly stream: readonly [start: string, end: string]
  readonly word: string
}

function openai(model: unknown, input: number, output: number): Shape {
  const usage = { prompt_tokens: input, completion_tokens: output, total_tokens: input + output }
  const start = { id: 'chatcmpl-1', created: 1, model }
  const event = (rest: object): string =>
    `data: ${JSON.stringify({ ...start, object: 'chat.completion.chunk', ...rest })}\n\n`
  const choice = (delta: object, finish: string | null = null): string =>
    event({ choices: [{ index: 0, delta, finish_reason: finish }] })
  const message = { role: 'assistant', content: WORD.repeat(output), refusal: null }
  return {
    whole: { ...start, object: 'chat.completion', choices: [{ index: 0, message, finish_reason: 'stop' }], usage },
    stream: [choice({ role: 'assistant' }), `${choice({}, 'stop')}${event({ choices: [], usage })}data: [DONE]\n\n`],
    word: choice({ content: WORD }),
  }
}

function anthropic(model: unknown, input: number, output: number): Shape {
  const start = { id: 'msg_1', type: 'message', role: 'assistant', model, stop_sequence: null }
  const event = (type: string, rest: object): string => `event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}\n\n`
  const stop = { stop_reason: 'end_turn', stop_sequence: null }
  const message = { ...start, content: [], stop_reason: null, usage: { input_tokens: input, output_tokens: 1 } }
  return {
    whole: {
      ...start,
      content: [{ type: 'text', text: WORD.repeat(output) }],
      stop_reason: 'end_turn',
      usage: { input_tokens: input, output_tokens: output },
    },
    stream: [
      event('message_start', { message }) +
        event('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
      event('content_block_stop', { index: 0 }) +
        event('message_delta', { delta: stop, usage: { output_tokens: output } }) +
        event('message_stop', {}),
    ],
    word: event('content_block_delta', { index: 0, delta: { type: 'text_delta', text: WORD } }),
  }
}

// ── With --once: some requests of a customer ──

type Left = Readonly<Record<'requests' | 'tokens' | 'budget' | 'running', number>>

async function show({ url }: Gateway, { failing }: FakeModel): Promise<void> {
  const headers = { Authorization: 'Bearer key-of-ann', 'Content-Type': 'application/json' }
  const send = (prompt: string, most: number, more: Json = {}, signal?: AbortSignal) => {
    const messages = [{ role: 'user', content: prompt }]
    const body = JSON.stringify({ model: 'large', messages, max_completion_tokens: most, ...more })
    return fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body, ...(signal && { signal }) })
  }
  const left = async (): Promise<Left> => (await (await fetch(`${url}/v1/usage`, { headers })).json()) as Left
  /** The gateway notices a moment later that a client has gone. */
  const leftWith = async (running: number): Promise<Left> => {
    for (let i = 0; i < 1000; i++) {
      const known = await left()
      if (known.running === running) return known
      await pause(5)
    }
    throw new Error(`${running} slots did not become free`)
  }
  const row = (...cells: readonly (string | number)[]): void =>
    console.log(cells.map((cell, i) => (i === 0 ? String(cell).padEnd(47) : String(cell).padStart(10))).join(''))
  const report = async (what: string, response?: globalThis.Response, free = 2): Promise<void> => {
    const deniedBy = /Rate limit reached: (\w+)/.exec((await response?.text()) ?? '')?.[1]
    const { requests, tokens, budget, running } = await leftWith(free)
    row(what, response?.status ?? 'aborted', deniedBy ?? '', requests, tokens, budget, running)
  }
  /** Starts a stream, and reads its first words. The stream goes on until it is aborted. */
  const start = async (): Promise<AbortController> => {
    const abort = new AbortController()
    const { body } = await send('Say 20 words and wait', 1000, { stream: true }, abort.signal)
    let seen = ''
    for await (const chunk of body!.values({ preventCancel: true })) {
      seen += new TextDecoder().decode(chunk)
      if (seen.split(WORD).length > 20) break
    }
    return abort
  }

  row('request of ann, and what is left afterwards', 'status', 'denied by', 'requests', 'tokens', 'budget', 'running')
  await report('a whole answer of 50 words', await send('Say 50 words', 1000))
  await report('the same again, from the cache', await send('Say 50 words', 1000))
  await report('a streamed answer of 100 words', await send('Say 100 words', 1000, { stream: true }))
  failing.add('large')
  await report('the model fails, another one answers', await send('Say 10 words', 1000))
  failing.add('small')
  await report('all models fail', await send('Say 20 words', 1000))
  failing.clear()
  await report('may use more tokens than the minute has left', await send('Say 1 word', 4900))

  const streams = [await start(), await start()]
  await report('a third one at the same time waits, in vain', await send('Say 2 words', 100), 0)
  const waiting = send('Say 3 words', 100)
  await pause(50)
  streams[0]!.abort()
  await report('a third one waits, and the first one hangs up', await waiting, 1)
  streams[1]!.abort()
  await report('the second one hangs up after 20 words')
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  subscribe('sluice:threshold', (message) => {
    const { key, threshold, limit } = message as ThresholdEvent
    console.log(`${key} has used or reserved ${threshold * 100} % of the ${limit.name}`)
  })
  const model = await startModel()
  const gateway = await startGateway(model.url, { port: Number(process.env.PORT ?? 0) })
  console.log(`listening on ${gateway.url}`)
  if (process.argv.includes('--once')) {
    await show(gateway, model)
    for (const { server } of [gateway, model]) {
      server.close()
      server.closeAllConnections()
    }
  }
}
