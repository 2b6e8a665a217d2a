import { refuse, wholeNumber } from '../util/validate.ts'
import { type Json, membersOf, tokenCount } from './tokens.ts'

/** The tokens of a request and of its answer that a provider bills. */
export interface Usage {
  /** The tokens of the prompt, including tokens that were read from a cache or written to a cache. */
  readonly input: number
  /** The part of `input` that was read from a cache. */
  readonly cachedInput: number
  /** The part of `input` that was written to a cache: of Anthropic for five minutes, and of OpenAI for any time. */
  readonly cacheWrite: number
  /** The part of `input` that was written to a cache for an hour. Only Anthropic reports it. */
  readonly cacheWriteHour: number
  /** The tokens of the answer: all choices, tool calls, and reasoning that is not shown. */
  readonly output: number
  /** The part of `output` that is reasoning, if the provider reports it. */
  readonly reasoning: number
}

/** The parts of a usage that `price` reads. Missing parts are 0. */
export type TokenCounts = Pick<Usage, 'input' | 'output'> & Partial<Usage>

/** The fields of the `usage` objects that a provider has sent until now. */
export type Reported = Record<string, number>

/** The fields that are read. `inside` is the object that contains the field, if it is not `usage` itself. */
const FIELDS: readonly (readonly [name: string, inside?: string])[] = [
  ['prompt_tokens'],
  ['completion_tokens'],
  ['total_tokens'],
  ['cached_tokens', 'prompt_tokens_details'],
  ['cache_write_tokens', 'prompt_tokens_details'],
  ['reasoning_tokens', 'completion_tokens_details'],
  ['input_tokens'],
  ['output_tokens'],
  ['cached_tokens', 'input_tokens_details'],
  ['cache_write_tokens', 'input_tokens_details'],
  ['reasoning_tokens', 'output_tokens_details'],
  ['thinking_tokens', 'output_tokens_details'],
  ['cache_read_input_tokens'],
  ['cache_creation_input_tokens'],
  ['ephemeral_1h_input_tokens', 'cache_creation'],
]

/** Steps of Anthropic whose tokens are billed, and are not in the counts of the whole answer. */
const MORE: ReadonlySet<unknown> = new Set(['compaction', 'advisor_message'])

/**
 * Adds the token counts in an answer or an event. Returns true if they are complete, false if more tokens may follow, and undefined if
 * there are no counts.
 * @param isOpen true if a choice has begun and not ended
 */
export function report(reported: Reported, event: Json, isOpen: boolean): boolean | undefined {
  const { type, choices, delta, message, response } = event
  const usage = membersOf(event.usage ?? membersOf(response).usage ?? membersOf(message).usage)
  const steps = Array.isArray(usage.iterations) ? (usage.iterations as unknown[]).map(membersOf) : []
  const more = steps.filter((step) => MORE.has(step.type))
  let output: number | undefined
  for (const [name, inside] of FIELDS) {
    const countOf = (counts: Json) => tokenCount(inside === undefined ? counts[name] : membersOf(counts[inside])[name])
    const value = countOf(usage)
    if (value === undefined) continue
    reported[name] = more.reduce((sum, step) => sum + (countOf(step) ?? 0), value)
    if (name === 'completion_tokens' || name === 'output_tokens') output = value
  }
  // Embeddings have no answer.
  if (output === undefined) return event.object === 'list' && reported.total_tokens !== undefined ? true : undefined
  // Anthropic sends counts at the start and at the end of a stream. Some servers with the API of OpenAI send counts in each event.
  if (type === 'message_start') return false
  if (type === 'message_delta') return typeof membersOf(delta).stop_reason === 'string'
  return !isOpen || !Array.isArray(choices) || choices.length === 0
}

/** Returns the reported usage. OpenAI includes the cached tokens in the tokens of the prompt. Anthropic does not. */
export function usageOf(reported: Reported): Usage {
  const of = (name: string): number => reported[name] ?? 0
  const written = of('cache_creation_input_tokens')
  const cacheWriteHour = Math.min(of('ephemeral_1h_input_tokens'), written)
  const input = reported.prompt_tokens ?? of('input_tokens') + of('cache_read_input_tokens') + written
  // Some servers include reasoning only in the total.
  const output = Math.max(reported.completion_tokens ?? of('output_tokens'), of('total_tokens') - input)
  const cachedInput = reported.cached_tokens ?? of('cache_read_input_tokens')
  const cacheWrite = reported.cache_write_tokens ?? written - cacheWriteHour
  const reasoning = reported.reasoning_tokens ?? of('thinking_tokens')
  return { input, cachedInput, cacheWrite, cacheWriteHour, output, reasoning }
}

/** The prices of a model, in dollars per million tokens. */
export interface Prices {
  /** The price of the prompt. */
  readonly input: number
  /** The price of the answer. */
  readonly output: number
  /** The price of tokens of the prompt that were read from a cache. Default: the price of `input`. */
  readonly cachedInput?: number
  /** The price of tokens that were written to a cache, of Anthropic for five minutes. Default: 1.25 × the price of `input`. */
  readonly cacheWrite?: number
  /** The price of tokens that were written to a cache for an hour. Default: 2 × the price of `input`. */
  readonly cacheWriteHour?: number
}

/** Dollars per million tokens are micro-dollars per token. Prices are counted in whole parts of a micro-dollar, so that the sum is exact. */
const PARTS = 1e6
const HIGHEST = 1e6

/**
 * Returns the price of a usage in micro-dollars, rounded up. One dollar is 1,000,000 micro-dollars. Use the result as the cost for a limit
 * such as `fixedWindow({ quota: 50_000_000, window: '1d', anchor: 'calendar' })`, which allows 50 dollars a day. Throws `INVALID_OPTION` for
 * a price that is not a number from 0 to 1,000,000, and for a usage without whole numbers, such as the object that a provider has sent.
 * @example price({ input: 1000, output: 200 }, { input: 2.5, cachedInput: 0.25, output: 10 }) // 4500
 */
export function price(usage: TokenCounts, prices: Prices): number {
  const { input, output, cachedInput = input, cacheWrite = 1.25 * input, cacheWriteHour = 2 * input } = prices
  const { cachedInput: cached = 0, cacheWrite: written = 0, cacheWriteHour: writtenHour = 0 } = usage
  wholeNumber('usage.input', usage.input, 0)
  wholeNumber('usage.output', usage.output, 0)
  const plain = Math.max(0, usage.input - cached - written - writtenHour)
  const parts =
    plain * partsOf('input', input) +
    cached * partsOf('cachedInput', cachedInput) +
    written * partsOf('cacheWrite', cacheWrite) +
    writtenHour * partsOf('cacheWriteHour', cacheWriteHour) +
    usage.output * partsOf('output', output)
  return Math.min(Number.MAX_SAFE_INTEGER, Math.ceil(parts / PARTS))
}

function partsOf(name: string, given: number): number {
  if (typeof given === 'number' && given >= 0 && given <= HIGHEST) return Math.round(given * PARTS)
  return refuse(`prices.${name}`, 'dollars per million tokens, from 0 to 1,000,000', given)
}
