import type { Duration } from '../engine/limit.ts'
import { knownOptions, milliseconds, wholeNumber } from '../util/validate.ts'
import { type Json, membersOf, textTokens, tokenCount } from './tokens.ts'
import { report, type Reported, type Usage, usageOf } from './usage.ts'

/** The options of `usageMeter`. */
export interface MeterOptions {
  /** The tokens that were charged before the request: for the prompt and for the longest answer, or the sum of both. */
  readonly reserved: number | Pick<Usage, 'input' | 'output'>
}

/** The body of a response of a model. */
export type ModelBody = ReadableStream<Uint8Array> | AsyncIterable<Uint8Array> | null | undefined

/** Counts the tokens of one answer. No content of the answer makes it throw, and it keeps at most 4 MB of text. */
export interface UsageMeter {
  /** The tokens to charge: the sum of `usage`. It can be read at any time, also for an answer that was cut off. */
  readonly cost: number
  /**
   * The tokens to charge, by kind. If the provider has reported all tokens, these are the reported numbers. If not, they are the larger of the
   * reservation and the tokens seen until now, for the prompt and for the answer.
   */
  readonly usage: Usage
  /** Whether the provider has reported all tokens. */
  readonly isReported: boolean
  /** Reads an answer, and yields its bytes. The loop that reads it decides how fast. To stop, leave the loop. */
  read(body: ModelBody): AsyncGenerator<Uint8Array, void, void>
  /** Returns a stream that counts the bytes that pass, and does not change them. */
  transform(): TransformStream<Uint8Array, Uint8Array>
  /**
   * Resolves when the answer has ended or is no longer read, or after a duration: milliseconds, or a text. Default `'10s'`. When the client
   * has disconnected, abort the request to the model, wait for this, then settle. Rejects with `INVALID_OPTION` for a wrong duration.
   */
  ended(within?: Duration): Promise<void>
}

/**
 * Creates a meter for one answer of OpenAI (chat completions, responses, embeddings) or Anthropic (messages), as JSON or as a stream of events.
 *
 * If the answer is cut off before it reports its usage, the cost is the larger of the reservation and the tokens seen: text, tool calls,
 * reasoning and refusals of all choices, estimated from their characters. For a streamed answer of OpenAI's chat completions, add
 * `stream_options: { include_usage: true }` to the request. Otherwise there is no usage. Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example
 * const meter = usageMeter({ reserved: 1200 })
 * for await (const chunk of meter.read(upstream.body)) response.write(chunk)
 * await limiter.settle(decision, meter.cost)
 */
export function usageMeter(options: MeterOptions): UsageMeter {
  knownOptions('usageMeter', options, ['reserved'])
  const { reserved } = options
  if (typeof reserved !== 'object' || reserved === null) wholeNumber('reserved', reserved, 0)
  else for (const name of ['input', 'output'] as const) wholeNumber(`reserved.${name}`, reserved[name], 0)
  return new Meter(reserved)
}

/** The most characters that are kept of an event, or of an answer that is not streamed. */
const LONGEST = 4 * 2 ** 20
/** The memory of a line in addition to its characters, counted as characters. */
const LINE_SIZE = 64

/** The largest number of choices that are remembered. */
const MOST_CHOICES = 1000

/** Members of an event with words of the API, not words of the model. */
const API_WORDS: ReadonlySet<string> = new Set(['role', 'type', 'id', 'call_id', 'index'])

class Meter implements UsageMeter {
  readonly #reserved: MeterOptions['reserved']
  readonly #decoder = new TextDecoder()
  readonly #reported: Reported = {}
  #isReported = false
  /** The tokens that were seen. This may be a fraction. */
  #seen = 0
  /** The choices that have begun, by their numbers: true for one that has not ended. */
  readonly #choices = new Map<number | undefined, boolean>()
  #format: 'json' | 'events' | undefined
  /** The data of the event that has not ended yet. */
  #event = ''
  #lines = 0
  /** The line that has not ended yet. An answer as JSON is one line. */
  #line = ''
  /** True if the event is too long to keep. Its text is then counted as it arrives. */
  #isTooLong = false
  /** True if the last text ended with a carriage return. A line feed may follow. */
  #isReturn = false
  #resolve!: () => void
  readonly #end = new Promise<void>((resolve) => (this.#resolve = resolve))

  constructor(reserved: MeterOptions['reserved']) {
    this.#reserved = reserved
  }

  get isReported(): boolean {
    return this.#isReported
  }

  get cost(): number {
    const { input, output } = this.usage
    return input + output
  }

  get usage(): Usage {
    const reported = usageOf(this.#reported)
    if (this.#isReported) return reported
    const reserved = this.#reserved
    const input = Math.max(reported.input, typeof reserved === 'number' ? 0 : reserved.input)
    const left = typeof reserved === 'number' ? reserved - input : reserved.output
    const seen = Math.ceil(this.#seen + textTokens(this.#event) + textTokens(this.#line))
    const output = Math.max(left, reported.output, seen)
    // Tokens that are written to a cache cost more than others, so they stay.
    return { ...reported, input, cachedInput: 0, output, reasoning: 0 }
  }

  async *read(body: ModelBody): AsyncGenerator<Uint8Array, void, void> {
    try {
      for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) {
        this.#add(this.#decoder.decode(chunk, { stream: true }))
        yield chunk
      }
    } finally {
      this.#close()
    }
  }

  transform(): TransformStream<Uint8Array, Uint8Array> {
    const transformer = {
      transform: (chunk: Uint8Array, controller: TransformStreamDefaultController<Uint8Array>) => {
        this.#add(this.#decoder.decode(chunk, { stream: true }))
        controller.enqueue(chunk)
      },
      flush: () => this.#close(),
      cancel: () => this.#close(),
    }
    return new TransformStream(transformer)
  }

  async ended(within: Duration = '10s'): Promise<void> {
    const ms = milliseconds('within', within)
    let timer: ReturnType<typeof setTimeout> | undefined
    const bound = new Promise<void>((resolve) => (timer = setTimeout(resolve, ms)))
    await Promise.race([this.#end, bound])
    clearTimeout(timer)
  }

  #add(text: string): void {
    if (this.#format === undefined) {
      const first = text.trimStart()
      if (first === '') return
      this.#format = first.startsWith('{') ? 'json' : 'events'
    }
    if (this.#format === 'json') this.#hold(text)
    else this.#addLines(text)
  }

  #addLines(text: string): void {
    const lines = (this.#isReturn ? text.replace(/^\n/, '') : text).split(/\r\n|\r|\n/)
    if (text !== '') this.#isReturn = text.endsWith('\r')
    for (const [i, line] of lines.entries()) {
      if (i > 0) this.#endLine()
      this.#hold(line)
    }
  }

  /** Keeps a part of a line. If the event is too long, all of it is counted as text. */
  #hold(text: string): void {
    this.#line += text
    const size = this.#event.length + this.#line.length + this.#lines * LINE_SIZE
    if (!this.#isTooLong && size <= LONGEST) return
    this.#isTooLong = true
    this.#see(textTokens(this.#event) + textTokens(this.#line))
    this.#event = ''
    this.#line = ''
  }

  /** Ends a line. An empty line ends the event. */
  #endLine(): void {
    const line = this.#line
    this.#line = ''
    this.#lines++
    if (line.startsWith('data:')) this.#event += `${line.slice('data:'.length)}\n`
    else if (line === '') this.#endEvent()
  }

  #endEvent(): void {
    this.#isTooLong = false
    this.#lines = 0
    const text = this.#event.trim()
    this.#event = ''
    if (text === '' || text === '[DONE]') return
    let json: unknown
    try {
      json = JSON.parse(text)
    } catch {
      // An event that is not JSON may be any text of the model.
      this.#see(textTokens(text))
      return
    }
    this.#take(json)
  }

  #take(json: unknown): void {
    const event = membersOf(json)
    const { type, choices, delta, content_block: block, content, output } = event
    for (const each of Array.isArray(choices) ? (choices as unknown[]) : []) this.#takeChoice(membersOf(each))
    this.#see(wordTokens(delta) + wordTokens(block) + wordTokens(content) + wordTokens(output))
    // This event has the name of a function. Its arguments follow.
    if (type === 'response.output_item.added') this.#see(wordTokens(membersOf(event.item).name))
    const isOpen = [...this.#choices.values()].includes(true)
    this.#isReported = report(this.#reported, event, isOpen) ?? this.#isReported
  }

  #takeChoice({ index, delta, message, text, finish_reason: reason }: Json): void {
    const tokens = wordTokens(delta ?? message ?? text)
    this.#see(tokens)
    const choice = tokenCount(index)
    // Some servers send the usage after the end of a choice, in an event with the same choice and no words.
    const isOpen = !reason && (tokens > 0 || this.#choices.get(choice) !== false)
    if (this.#choices.has(choice) || this.#choices.size < MOST_CHOICES) this.#choices.set(choice, isOpen)
  }

  /** Adds tokens, at least one if the model has sent something. A usage that was reported before them is not complete. */
  #see(tokens: number): void {
    if (tokens === 0) return
    this.#seen += Math.max(1, tokens)
    this.#isReported = false
  }

  #close(): void {
    this.#add(this.#decoder.decode())
    if (this.#format === 'json') this.#event = this.#line
    else this.#endLine()
    this.#line = ''
    this.#endEvent()
    this.#resolve()
  }
}

/** Returns the tokens in a part of an answer. */
function wordTokens(said: unknown): number {
  if (typeof said === 'string') return textTokens(said)
  let tokens = 0
  const rest = [said]
  while (rest.length > 0) {
    const value = rest.pop()
    if (typeof value === 'string') tokens += textTokens(value)
    else for (const [name, member] of Object.entries(membersOf(value))) if (!API_WORDS.has(name)) rest.push(member)
  }
  return tokens
}
