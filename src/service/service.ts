import { plainDenial, plainHeaders } from '../http/plain.ts'
import { type HeaderConfig, headerConfig } from '../http/headers/styles.ts'
import { HEADER_OPTIONS, type HeaderOptions } from '../http/headers/options.ts'
import { NAMES_ELSEWHERE } from '../http/names-elsewhere.ts'
import { guardedLimiterOf } from '../limiter/adapted.ts'
import type { Limiter } from '../limiter/contract.ts'
import type { Decision } from '../limiter/decision.ts'
import { keyedLimiter, nameOf } from '../limiter/keyed.ts'
import { createLimiter } from '../limiter/limiter.ts'
import { ALL_OPTIONS, type RulesLimiterOptions } from '../limiter/options.ts'
import type { RulesInput } from '../limiter/rule-source.ts'
import { collect } from '../metrics/prometheus/index.ts'
import { TextRegistry } from '../metrics/prometheus/text.ts'
import { checkedOutage, type Degraded } from '../stores/store.ts'
import { sleep } from '../util/clock.ts'
import { reasonOf, SluiceError, textOf } from '../util/errors.ts'
import { HEADER_NAME, knownOptions, refuse } from '../util/validate.ts'
import { rareWarning } from '../util/warn.ts'
import {
  denyStatus,
  type HeadersByName,
  keyQuestion,
  MOST_BYTES,
  parsedBody,
  proxyInput,
  rulesInput,
} from './questions.ts'
import { tokenCheck } from './token.ts'

/** The source of decisions: rules, as in `createLimiter({ rules })`, or limiters with names. */
export type ServiceSource =
  | (RulesLimiterOptions<RulesInput> & { readonly limiters?: never })
  | {
      /** The limiters that clients can name. Each has one key. */
      readonly limiters: readonly Limiter<never>[]
      readonly rules?: never
    }

/** The options of a service, in addition to the source of decisions. */
export interface ServiceOptions extends HeaderOptions {
  /**
   * The token that clients send as `Authorization: Bearer …`: at least 16 characters from a random source. A list of tokens is for the time of a
   * change. False if nobody else can reach the service, for example at a socket file. `undefined`, such as the value of an environment variable
   * that is not set, throws `INVALID_OPTION`.
   * @example serveLimits({ rules, token: process.env.SLUICE_TOKEN! })
   */
  readonly token: string | readonly string[] | false
  /** How requests are decided while the store does not answer. The same as in adapters. Default: `'local'`. */
  readonly onOutage?: Degraded
  /** The header for `/check` in which a proxy writes the address of its client. Only the proxy may set it. Default `'x-real-ip'`. */
  readonly addressHeader?: string
}

const OPTIONS = ['limiters', ...ALL_OPTIONS, ...HEADER_OPTIONS, 'token', 'onOutage', 'addressHeader']

/** A request to the service, from any kind of server. */
export interface ServiceRequest {
  readonly method: string
  /** The path and the query. */
  readonly target: string
  readonly headers: HeadersByName
  /** Returns the body. Returns 413 for a body of more than `most` bytes, and 408 for a body that takes too long. */
  body(most: number): Promise<Uint8Array | 408 | 413>
}

export interface ServiceAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

type Decide = (message: unknown) => Promise<Decision>

const JSON_TYPE = 'application/json'
const NO_STORE = { 'Cache-Control': 'no-store' } as const

/** The codes of errors that a client has caused. */
const OF_CLIENTS: ReadonlySet<string> = new Set(['INVALID_MESSAGE', 'INVALID_COST', 'INVALID_KEY'])

/** Decides over HTTP. */
export class Service {
  readonly #isKnown: (authorization: string | undefined) => boolean
  readonly #config: HeaderConfig
  readonly #unit: HeaderOptions['unit']
  readonly #addressHeader: string
  /** The limiter with rules. Absent for limiters with names. */
  readonly #rules: Limiter<RulesInput> | undefined
  readonly #decide: Decide
  readonly #registry = new TextRegistry()
  readonly #metrics: { close(): void }
  readonly #hasToken: boolean
  readonly #warn = rareWarning('SLUICE_SERVICE')
  #isClosed = false

  /** Throws `INVALID_OPTION`, `UNKNOWN_OPTION`, and the errors of `createLimiter`. */
  constructor(given: ServiceSource & ServiceOptions) {
    const options = knownOptions('serveLimits', given, OPTIONS, NAMES_ELSEWHERE)
    const { token, onOutage, addressHeader = 'x-real-ip' } = options
    this.#isKnown = tokenCheck(token)
    this.#hasToken = token !== false
    if (onOutage !== undefined) checkedOutage(onOutage)
    if (typeof addressHeader !== 'string' || !HEADER_NAME.test(addressHeader))
      refuse('addressHeader', 'the name of a header', addressHeader)
    this.#addressHeader = addressHeader.toLowerCase()
    this.#unit = options.unit
    this.#config = headerConfig(options)
    this.#rules = options.limiters === undefined ? guardedLimiterOf(limiterOf(options), onOutage) : undefined
    this.#decide = this.#rules === undefined ? decideByKey(options.limiters!, onOutage) : decideByRules(this.#rules)
    this.#metrics = collect(this.#registry)
  }

  /** Stops counting. Later requests get a 503. */
  close(): void {
    this.#isClosed = true
    this.#metrics.close()
  }

  /** Answers a request. Rejects only if the body cannot be read, for example because the client has disconnected. */
  async answer(request: ServiceRequest): Promise<ServiceAnswer> {
    const { method, headers } = request
    const path = pathOf(request.target)
    if (this.#isClosed) return problem(503, 'The service has ended.')
    if (path === '/health') return isRead(method) ? json(200, { status: 'ok' }, method) : notAllowed('GET, HEAD')
    if (!this.#isKnown(textIn(headers['authorization']))) return unauthorized()
    if (path === '/check') return this.#answered(request, () => this.#check(request))
    if (path === '/decide')
      return method === 'POST' ? this.#answered(request, () => this.#answerBody(request)) : notAllowed('POST')
    if (path === '/metrics') return isRead(method) ? this.#showMetrics(method) : notAllowed('GET, HEAD')
    return notFound()
  }

  async #showMetrics(method: string): Promise<ServiceAnswer> {
    const body = method === 'HEAD' ? '' : await this.#registry.metrics()
    return { status: 200, headers: { 'Content-Type': this.#registry.contentType, ...NO_STORE }, body }
  }

  async #answered(request: ServiceRequest, answer: () => Promise<ServiceAnswer>): Promise<ServiceAnswer> {
    try {
      return await answer()
    } catch (error) {
      if (error instanceof ClientGone) throw error
      const [reason, code] = error instanceof SluiceError ? [reasonOf(error), error.code] : [textOf(error)]
      if (code !== undefined && OF_CLIENTS.has(code)) return problem(400, reason, {}, code)
      // Clients do not see the reason, because it may name servers and keys.
      this.#warn(() => `The service could not decide about a request (${request.method}). ${reason}`)
      return problem(500, 'The service could not decide.', {}, code)
    }
  }

  async #answerBody(request: ServiceRequest): Promise<ServiceAnswer> {
    // A page of another site can send texts and forms without a preflight, but not JSON.
    if (!isJson(textIn(request.headers['content-type']))) return problem(415, `Send the body as ${JSON_TYPE}.`)
    const bytes = await request.body(MOST_BYTES)
    if (bytes === 413) return problem(413, `A body has at most ${MOST_BYTES} bytes.`)
    if (bytes === 408) return problem(408, 'The body has not arrived in time.')
    const decision = await this.#decide(parsedBody(bytes))
    if (!decision.allowed) return this.#denied(decision, request)
    await delayed(decision)
    const { remaining, resetAfter } = decision
    // In JSON, `Infinity` is null.
    const answer = { allowed: true, remaining, resetAfter }
    return json(200, answer, 'POST', plainHeaders(decision, this.#config))
  }

  async #check(request: ServiceRequest): Promise<ServiceAnswer> {
    if (this.#rules === undefined) return notFound()
    const below = request.target.slice('/check'.length)
    const status = denyStatus(below)
    const input = proxyInput(request.method, below, this.#visible(request.headers), this.#addressHeader)
    const decision = await this.#rules.consume(input)
    if (!decision.allowed) return { ...this.#denied(decision, request), ...(status !== undefined && { status }) }
    await delayed(decision)
    return { status: 200, headers: { ...plainHeaders(decision, this.#config), ...NO_STORE }, body: '' }
  }

  /** Returns the headers for the rules, without the token of the service. */
  #visible(headers: HeadersByName): HeadersByName {
    return this.#hasToken ? { ...headers, authorization: undefined } : headers
  }

  #denied(decision: Decision, { method, headers }: ServiceRequest): ServiceAnswer {
    return plainDenial(decision, this.#config, { method, accept: textIn(headers['accept']), unit: this.#unit })
  }
}

/** Thrown while a body is read, if the client has disconnected. No answer is needed. */
export class ClientGone extends Error {}

function limiterOf(options: ServiceSource): Limiter<RulesInput> {
  const own = Object.entries(options).filter(([name]) => ALL_OPTIONS.includes(name))
  const chosen = Object.fromEntries(own) as Partial<RulesLimiterOptions<RulesInput>>
  if (chosen.rules === undefined) refuse('serveLimits', 'rules, or limiters', undefined)
  return createLimiter(chosen as RulesLimiterOptions<RulesInput>)
}

function decideByRules(limiter: Limiter<RulesInput>): Decide {
  return async (message) => limiter.consume(rulesInput(message))
}

function decideByKey(given: readonly Limiter<never>[], onOutage: Degraded | undefined): Decide {
  if (!Array.isArray(given) || given.length === 0) refuse('limiters', 'a list of limiters', given)
  const limiters = new Map<string, Limiter<never>>()
  for (const each of given) {
    const limiter = keyedLimiter(each as Limiter<never>, 'write `rules` in place of `limiters`')
    const name = nameOf(limiter)
    if (limiters.has(name)) refuse('limiters', 'limiters of different names', name)
    limiters.set(name, guardedLimiterOf<never>(limiter, onOutage))
  }
  const names = [...limiters.keys()]
  return async function decideKey(message) {
    const { limiter, key, cost } = keyQuestion(message, names)
    return limiters
      .get(limiter)!
      .key(key)
      .consume(cost === undefined ? {} : { cost })
  }
}

/** Waits for the delay of a decision, such as the delay of a `leakyBucket`. */
async function delayed({ delay }: Decision): Promise<void> {
  if (delay > 0) await new Promise<void>((resolve) => void sleep(delay, resolve))
}

/** Returns the path without the query. For every path below `/check` it returns `/check`: the rest is the path of a request. */
function pathOf(target: string): string {
  return /^\/check(?:[/?]|$)/.test(target) ? '/check' : target.split('?', 1)[0]!
}

function isRead(method: string): boolean {
  return method === 'GET' || method === 'HEAD'
}

/** Returns the text of a header. A header that was sent twice is a list and has no text. */
function textIn(header: string | readonly string[] | undefined): string | undefined {
  return typeof header === 'string' ? header : undefined
}

function isJson(type: string | undefined): boolean {
  return type !== undefined && /^application\/json\s*(?:;|$)/i.test(type)
}

function json(status: number, content: object, method: string, headers: ServiceAnswer['headers'] = {}): ServiceAnswer {
  const body = method === 'HEAD' ? '' : JSON.stringify(content)
  return { status, headers: { ...headers, 'Content-Type': JSON_TYPE, ...NO_STORE }, body }
}

function notFound(): ServiceAnswer {
  return problem(404, 'There is no such path.')
}

function notAllowed(allowed: string): ServiceAnswer {
  return problem(405, `Allowed: ${allowed}.`, { Allow: allowed })
}

function unauthorized(): ServiceAnswer {
  const detail = 'Send the token of the service as `Authorization: Bearer …`.'
  return problem(401, detail, { 'WWW-Authenticate': 'Bearer' })
}

const TITLES: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  404: 'Not Found',
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  413: 'Content Too Large',
  415: 'Unsupported Media Type',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
}

/** Returns an answer that is not a decision, as problem details. */
function problem(status: number, detail: string, headers: ServiceAnswer['headers'] = {}, code?: string): ServiceAnswer {
  const body = JSON.stringify({ type: 'about:blank', title: TITLES[status], status, code, detail })
  return { status, headers: { ...headers, 'Content-Type': 'application/problem+json', ...NO_STORE }, body }
}
