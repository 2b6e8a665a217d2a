import { setTimeout as pause } from 'node:timers/promises'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type MeterOptions, usageMeter, type UsageMeter } from '../../src/llm/index.ts'
import { heapUsed } from '../support/heap.ts'
import { APIS, KINDS, streamOf, USAGE, WHOLE } from '../support/model-streams.ts'

const encoder = new TextEncoder()

async function* bytesOf(parts: Iterable<string | Uint8Array>): AsyncGenerator<Uint8Array> {
  for (const part of parts) yield typeof part === 'string' ? encoder.encode(part) : part
}

/** Reads an answer to its end, or to a failure, and returns its meter and its bytes. */
async function read(
  body: AsyncIterable<Uint8Array>,
  reserved: MeterOptions['reserved'] = 0,
): Promise<UsageMeter & { readonly bytes: Buffer }> {
  const meter = usageMeter({ reserved })
  const chunks: Uint8Array[] = []
  try {
    for await (const chunk of meter.read(body)) chunks.push(chunk)
  } catch (error) {
    if ((error as Error).message !== 'cut off') throw error
  }
  return Object.assign(meter, { bytes: Buffer.concat(chunks) })
}

const readTexts = (texts: Iterable<string | Uint8Array>, reserved?: MeterOptions['reserved']) =>
  read(bytesOf(texts), reserved)

async function* cutOff(events: readonly string[]): AsyncGenerator<Uint8Array> {
  yield* bytesOf(events)
  throw new Error('cut off')
}

const data = (json: object): string => `data: ${JSON.stringify(json)}\n\n`

describe.each(APIS)('a stream of %s', (api) => {
  describe.each(KINDS)('with %s', (kind) => {
    const both = [1, 5].map((tokensPerEvent) => streamOf(api, kind, tokensPerEvent))

    it('costs its usage when it came', async () => {
      for (const { events } of both) {
        const meter = await readTexts(events, 100_000)
        expect(meter.usage).toEqual(USAGE)
        expect(meter.cost).toBe(USAGE.input + USAGE.output)
        expect(meter.isReported).toBe(true)
        expect(meter.bytes.toString()).toBe(events.join(''))
      }
    })

    it('costs at least what was reserved and what was seen when it is cut after any event', async () => {
      for (const { events, tokens, usageAt } of both) {
        for (let cut = 0; cut <= usageAt; cut++) {
          const isStarted = api === 'messages' && cut > 0
          const prompt = isStarted ? USAGE.input : 0
          for (const reserved of [0, 7, 1e6]) {
            const { cost, isReported } = await read(cutOff(events.slice(0, cut)), reserved)
            expect(isReported).toBe(false)
            expect(cost).toBeGreaterThanOrEqual(Math.max(reserved, prompt + tokens[cut]!))
            // An estimate is not more than twice the tokens, and a few for the name of a function and rounding.
            expect(cost).toBeLessThanOrEqual(Math.max(reserved, prompt + 2.5 * tokens[cut]! + 20))
          }
        }
        for (let cut = usageAt + 1; cut <= events.length; cut++) {
          expect((await read(cutOff(events.slice(0, cut)), 1e6)).usage).toEqual(USAGE)
        }
      }
    })

    it('is counted alike however its bytes arrive, and with any line ends', async () => {
      const { events } = streamOf(api, kind, 5)
      for (const lineEnd of ['\n', '\r\n', '\r']) {
        const bytes = encoder.encode(events.join('').replaceAll('\n', lineEnd))
        const single = Array.from(bytes, (byte) => Uint8Array.of(byte))
        expect((await readTexts(single)).usage).toEqual(USAGE)
        const half = encoder.encode(events.slice(0, -4).join('').replaceAll('\n', lineEnd))
        const whole = await readTexts([half])
        expect((await readTexts(Array.from(half, (byte) => Uint8Array.of(byte)))).usage).toEqual(whole.usage)
      }
    })
  })

  it('passes its bytes through a transform unchanged, and counts them', async () => {
    const { events } = streamOf(api, 'chinese', 5)
    const meter = usageMeter({ reserved: 0 })
    const passed = ReadableStream.from(bytesOf(events)).pipeThrough(meter.transform())
    expect(await new Response(passed).text()).toBe(events.join(''))
    expect(meter.usage).toEqual(USAGE)
    await meter.ended(1)
  })

  it('costs its usage when it is not streamed, in one piece or byte by byte', async () => {
    for (const text of [JSON.stringify(WHOLE[api]), `\n ${JSON.stringify(WHOLE[api], null, 2)}\n`]) {
      expect((await readTexts([text], 1e6)).usage).toEqual(USAGE)
      const bytes = Array.from(encoder.encode(text), (byte) => Uint8Array.of(byte))
      expect((await readTexts(bytes, 1e6)).usage).toEqual(USAGE)
    }
  })

  it('costs at least its text when it is not streamed and is cut off, or has no usage', async () => {
    const { usage: _, ...rest } = WHOLE[api] as { usage: object }
    const whole = JSON.stringify(rest)
    const { cost } = await readTexts([whole])
    // Two choices of OpenAI's chat completions have ten tokens each.
    expect(cost).toBeGreaterThanOrEqual(api === 'chat' ? 20 : 10)
    expect((await readTexts([whole], 5000)).cost).toBe(5000)
    expect((await readTexts([whole.slice(0, -1)])).cost).toBeGreaterThanOrEqual(cost)
  })
})

describe('a usage', () => {
  const usage = { prompt_tokens: 5, completion_tokens: 2 }
  const choice = (content: string, finish_reason: string | null = null) => ({
    choices: [{ index: 0, delta: { content }, finish_reason }],
  })

  it('that comes with each event counts at the end only', async () => {
    const events = [data({ ...choice('yes'), usage }), data({ ...choice(' no'), usage })]
    expect((await readTexts(events, 900)).cost).toBe(900)
    const last = data({ ...choice('', 'stop'), usage: { prompt_tokens: 5, completion_tokens: 3 } })
    expect((await readTexts([...events, last], 900)).cost).toBe(8)
  })

  it('counts in an event after the end that has the choice again, without words', async () => {
    const after = data({ ...choice(''), usage })
    expect((await readTexts([data(choice('yes')), data(choice('', 'stop')), after], 900)).cost).toBe(7)
    expect((await readTexts([data(choice('yes')), data(choice('', '')), after], 900)).cost).toBe(900)
    expect((await readTexts([data(choice('', 'stop')), data({ ...choice('more'), usage })], 900)).cost).toBe(900)
  })

  it('does not count when the model goes on after it', async () => {
    const early = [data({ choices: [], usage }), data(choice('more'))]
    const { isReported, cost } = await readTexts(early, 900)
    expect([isReported, cost]).toEqual([false, 900])
  })

  it('that comes with each event counts only when all choices have ended', async () => {
    const event = (index: number, finish_reason: string | null, completion_tokens: number): string =>
      data({ choices: [{ index, delta: {}, finish_reason }], usage: { prompt_tokens: 5, completion_tokens } })
    const events = [event(0, null, 1), event(1, null, 2), event(0, 'stop', 3)]
    expect((await readTexts(events, 900)).cost).toBe(900)
    expect((await readTexts([...events, event(1, 'length', 4)], 900)).cost).toBe(9)
  })

  it('of Anthropic counts at the end only', async () => {
    const more = data({ type: 'message_delta', delta: { stop_reason: null }, usage: { output_tokens: 9 } })
    expect((await readTexts([more], 900)).cost).toBe(900)
  })

  const cache_creation = { ephemeral_5m_input_tokens: 30, ephemeral_1h_input_tokens: 10 }
  const written = { input_tokens: 5, cache_creation_input_tokens: 40, cache_read_input_tokens: 100, cache_creation }

  it('has the tokens that Anthropic has written to caches', async () => {
    const meter = await readTexts([JSON.stringify({ type: 'message', usage: { ...written, output_tokens: 7 } })])
    const cached = { cachedInput: 100, cacheWrite: 30, cacheWriteHour: 10 }
    expect(meter.usage).toEqual({ input: 145, ...cached, output: 7, reasoning: 0 })
  })

  it('of a stream that is cut off has them, too, because they cost more', async () => {
    const start = data({ type: 'message_start', message: { usage: { ...written, output_tokens: 1 } } })
    const { usage, isReported } = await readTexts([start], { input: 200, output: 50 })
    expect(isReported).toBe(false)
    expect(usage).toEqual({ input: 200, cachedInput: 0, cacheWrite: 30, cacheWriteHour: 10, output: 50, reasoning: 0 })
  })

  it.each(['prompt', 'input'])('has the tokens that OpenAI has written to a cache: %s_tokens_details', async (name) => {
    const details = { cached_tokens: 100, cache_write_tokens: 30 }
    const counts = { [`${name}_tokens`]: 150, [`${name}_tokens_details`]: details, output_tokens: 7 }
    const { usage } = await readTexts([JSON.stringify({ usage: counts })])
    expect(usage).toMatchObject({ input: 150, cachedInput: 100, cacheWrite: 30, output: 7 })
  })

  it('has the steps that Anthropic does not count in the whole', async () => {
    const step = (type: string, input_tokens: number, output_tokens: number) => ({ type, input_tokens, output_tokens })
    const steps = [step('compaction', 180, 35), step('advisor_message', 1000, 200), step('message', 23, 10)]
    const counts = { ...step('whole', 23, 10), iterations: [...steps, null, step('message', 1, 1)] }
    const { usage } = await readTexts([JSON.stringify({ usage: counts })])
    expect(usage).toMatchObject({ input: 1203, output: 245 })
  })

  it('has reasoning that a server counts only in the total', async () => {
    const counts = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 115 }
    expect((await readTexts([data({ choices: [], usage: counts })])).usage.output).toBe(105)
  })

  it('of embeddings has no answer', async () => {
    const embedding = { object: 'embedding', index: 0, embedding: [0.1, -0.2] }
    const answer = { object: 'list', data: [embedding], usage: { prompt_tokens: 8, total_tokens: 8 } }
    const meter = await readTexts([JSON.stringify(answer)], 900)
    expect([meter.isReported, meter.usage.input, meter.cost]).toEqual([true, 8, 8])
    // An event of a chat can have the same numbers before its answer.
    const event = data({ ...choice('more'), usage: answer.usage })
    expect((await readTexts([event], 900)).cost).toBe(900)
  })

  it('with numbers that cannot be is ignored', async () => {
    for (const wrong of [-1, 1e300, 0.5, '7', null, [3], {}, true]) {
      const counts = { prompt_tokens: wrong, completion_tokens: wrong, total_tokens: wrong }
      const event = data({ choices: [], usage: counts })
      expect((await readTexts([event], 900)).cost).toBe(900)
    }
  })
})

describe('a reservation', () => {
  it('is kept for the prompt and for the answer when they are given apart', async () => {
    const start = data({ type: 'message_start', message: { usage: { input_tokens: 30, output_tokens: 1 } } })
    const text = data({ type: 'content_block_delta', delta: { type: 'text_delta', text: ' yes'.repeat(100) } })
    const { usage } = await readTexts([start, text], { input: 50, output: 20 })
    expect(usage.input).toBe(50)
    expect(usage.output).toBeGreaterThanOrEqual(100)
    expect((await readTexts([start], { input: 20, output: 40 })).usage).toMatchObject({ input: 30, output: 40 })
    expect((await readTexts([start], 90)).usage).toMatchObject({ input: 30, output: 60 })
  })

  it('is the cost before anything is read, and of an answer that has nothing', async () => {
    expect(usageMeter({ reserved: 70 }).cost).toBe(70)
    expect((await readTexts([], 70)).cost).toBe(70)
    const meter = usageMeter({ reserved: { input: 3, output: 4 } })
    for await (const _ of meter.read(null)) throw new Error('nothing to read')
    expect(meter.cost).toBe(7)
  })

  it('is refused if it is no number of tokens', () => {
    const refused = expect.objectContaining({ code: 'INVALID_OPTION' })
    for (const reserved of [-1, 0.5, NaN, '7', null, undefined, {}, { input: 1 }, { input: 1, output: -1 }])
      expect(() => usageMeter({ reserved: reserved as number })).toThrow(refused)
    const unknown = expect.objectContaining({ code: 'UNKNOWN_OPTION' })
    expect(() => usageMeter({ reserved: 1, limit: 2 } as never)).toThrow(unknown)
  })
})

describe('the end', () => {
  it('is reported when the answer has ended, is cut off, or is no longer read', async () => {
    const { events } = streamOf('chat', 'text')
    const left = usageMeter({ reserved: 0 })
    let isOpen = true
    const body = async function* () {
      try {
        yield* bytesOf(events)
      } finally {
        isOpen = false
      }
    }
    for await (const _ of left.read(body())) break
    expect(isOpen).toBe(false)
    const ended = [await read(bytesOf(events)), await read(cutOff(events)), left]
    const cancelled = usageMeter({ reserved: 0 })
    await ReadableStream.from(bytesOf(events)).pipeThrough(cancelled.transform()).cancel()
    for (const meter of [...ended, cancelled]) {
      let isEnded = false
      void meter.ended('1h').then(() => (isEnded = true))
      await pause(0)
      expect(isEnded).toBe(true)
    }
  })

  it('is waited for no longer than asked', async () => {
    const meter = usageMeter({ reserved: 0 })
    const start = performance.now()
    await meter.ended('20ms')
    expect(performance.now() - start).toBeGreaterThan(15)
    await expect(meter.ended('soon' as '1s')).rejects.toMatchObject({ code: 'INVALID_OPTION' })
  })
})

describe('hostile input', () => {
  const MB = 2 ** 20

  it('of any bytes never throws, never costs less than the reservation, and passes unchanged', async () => {
    const { events } = streamOf('messages', 'tool', 5)
    const piece = fc.oneof(
      fc.constantFrom(...events, 'data: {', 'data:', '\r', '\n', '\n\n', '{', '[', 'null', 'data: null\n\n', ': x\n'),
      fc.json().map((json) => `data: ${json}\n\n`),
      fc.json().map((usage) => `data: {"usage":${usage},"choices":${usage},"delta":${usage}}\n\n`),
      fc.uint8Array(),
      fc.string(),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(piece), fc.nat({ max: 1000 }), async (pieces, reserved) => {
        const meter = await readTexts(pieces, reserved)
        expect(meter.bytes).toEqual(Buffer.concat(pieces.map((each) => Buffer.from(each as string))))
        expect(Number.isSafeInteger(meter.cost)).toBe(true)
        if (!meter.isReported) expect(meter.cost).toBeGreaterThanOrEqual(reserved)
      }),
      { numRuns: 60 },
    )
  })

  it('that is nested 100,000 deep is counted', async () => {
    const deep = `${'['.repeat(1e5)}"yes"${']'.repeat(1e5)}`
    for (const text of [`data: {"delta":${deep}}\n\n`, `data: {"usage":${deep}}\n\n`, `{"content":${deep}}`])
      expect((await readTexts([text], 5)).cost).toBeGreaterThanOrEqual(5)
  })

  it.each([
    ['a line', 'data: {"delta":"', 'yes '],
    ['an answer that is not streamed', '{"content":"', 'yes '],
    ['lines of data', 'data: {"delta":"', 'yes\ndata: '],
    ['a comment', ': ', 'yes '],
  ])('%s without an end is counted, and holds little memory', { timeout: 60_000 }, async (_, start, more) => {
    const chunk = encoder.encode(more.repeat(MB / more.length))
    const meter = usageMeter({ reserved: 0 })
    const held: number[] = []
    const body = async function* () {
      yield encoder.encode(start)
      // Four megabytes of one line or event are kept.
      for (let i = 0; i < 10; i++) {
        yield chunk
        if (i % 3 === 0) held.push(heapUsed())
      }
    }
    const before = heapUsed()
    for await (const _ of meter.read(body()));
    expect(meter.cost).toBeGreaterThan((10 * MB) / more.length)
    expect(Math.max(...held) - before).toBeLessThan(32 * MB)
    expect(held.at(-1)! - before).toBeLessThan(2 * MB)
  })

  it('too long for an event is counted, and the events after it are read', async () => {
    const long = data({ delta: 'yes '.repeat(1.5 * MB) })
    const usage = data({ choices: [], usage: { prompt_tokens: 1, completion_tokens: 2 } })
    const parts = [long.slice(0, 3 * MB), long.slice(3 * MB)]
    expect((await readTexts(parts)).cost).toBeGreaterThanOrEqual(1.5 * MB)
    expect((await readTexts([...parts, usage])).cost).toBe(3)
  })
})
