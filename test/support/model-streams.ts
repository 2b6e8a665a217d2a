// Answers of language models in the shape of the published formats of OpenAI and Anthropic, as events and as JSON.

/** What a model sends. */
export const KINDS = ['text', 'chinese', 'tool', 'reasoning', 'refusal', 'choices'] as const
export type Kind = (typeof KINDS)[number]

export const APIS = ['chat', 'responses', 'messages'] as const
export type Api = (typeof APIS)[number]

/** Texts by their tokens, as the encoding `o200k_base` of OpenAI splits them. */
const text = ['Rate', ' limits', ' protect', ' a', ' service', ' from', ' too', ' many', ' requests', '.']
const chinese = ['限', '流', '可以', '保护', '服务', '，', '避免', '同时', '处理', '过', '多', '的', '请求', '。']
const tool = ['{"', 'city', '":"', 'Berlin', '","', 'days', '":[', '1', ',', '2', ',', '3', '],"', 'rain', '"}']
const reasoning = ['First', ',', ' compare', ' both', ' limits', ',', ' so', ' ', '42', ' requests', ' remain', '.']
const tokensOf: Readonly<Record<Kind, readonly string[]>> = {
  text,
  chinese,
  tool,
  reasoning,
  refusal: text,
  choices: text,
}

/** The usage that the provider reports at the end of each answer here, as `usageMeter` returns it. */
export const USAGE = { input: 1200, cachedInput: 1000, cacheWrite: 0, cacheWriteHour: 0, output: 345, reasoning: 64 }

export interface Streamed {
  /** The events, in order. */
  readonly events: readonly string[]
  /** How many tokens of the model the first events contain, by the number of events. */
  readonly tokens: readonly number[]
  /** The place of the event with the usage. */
  readonly usageAt: number
}

/** Returns a stream. Each event has this many tokens of the model. */
export function streamOf(api: Api, kind: Kind, tokensPerEvent = 1): Streamed {
  const events: string[] = []
  const tokens = [0]
  const add = (event: string, count = 0): void => {
    events.push(event)
    tokens.push(tokens.at(-1)! + count)
  }
  const [before, say, after] = shapes[api](kind)
  for (const event of before) add(event)
  const all = tokensOf[kind]
  for (let i = 0; i < all.length; i += tokensPerEvent) {
    const part = all.slice(i, i + tokensPerEvent)
    for (const event of say(part.join(''))) add(event, part.length)
  }
  for (const event of after) add(event)
  return { events, tokens, usageAt: events.findLastIndex((event) => event.includes('_tokens')) }
}

type Shape = readonly [before: readonly string[], say: (text: string) => readonly string[], after: readonly string[]]

const shapes: Readonly<Record<Api, (kind: Kind) => Shape>> = { chat, responses, messages }

const CHAT_USAGE = {
  prompt_tokens: 1200,
  completion_tokens: 345,
  total_tokens: 1545,
  prompt_tokens_details: { cached_tokens: 1000, audio_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: 64, audio_tokens: 0, rejected_prediction_tokens: 0 },
}

function chat(kind: Kind): Shape {
  const event = (rest: object): string =>
    `data: ${JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'gpt', usage: null, ...rest })}\n\n`
  const choice = (delta: object, index = 0, finish: string | null = null): string =>
    event({ choices: [{ index, delta, logprobs: null, finish_reason: finish }] })
  const indices = kind === 'choices' ? [0, 1, 2] : [0]
  const call = { index: 0, id: 'call_1', type: 'function', function: { name: 'weather', arguments: '' } }
  const deltas: Readonly<Partial<Record<Kind, (text: string) => object>>> = {
    tool: (text) => ({ tool_calls: [{ index: 0, function: { arguments: text } }] }),
    reasoning: (text) => ({ reasoning_content: text }),
    refusal: (refusal) => ({ refusal }),
  }
  const say = deltas[kind] ?? ((content: string) => ({ content }))
  return [
    indices.map((index) => choice({ role: 'assistant', ...(kind === 'tool' && { tool_calls: [call] }) }, index)),
    (text) => indices.map((index) => choice(say(text), index)),
    [
      ...indices.map((index) => choice({}, index, 'stop')),
      event({ choices: [], usage: CHAT_USAGE }),
      'data: [DONE]\n\n',
    ],
  ]
}

const RESPONSES_USAGE = {
  input_tokens: 1200,
  input_tokens_details: { cached_tokens: 1000 },
  output_tokens: 345,
  output_tokens_details: { reasoning_tokens: 64 },
  total_tokens: 1545,
}

function responses(kind: Kind): Shape {
  let number = 0
  const event = (type: string, rest: object): string =>
    `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: number++, ...rest })}\n\n`
  const response = { id: 'resp_1', object: 'response', status: 'in_progress', model: 'gpt', output: [], usage: null }
  const types: Readonly<Partial<Record<Kind, string>>> = {
    tool: 'function_call_arguments',
    reasoning: 'reasoning_summary_text',
    refusal: 'refusal',
  }
  const name = types[kind] ?? 'output_text'
  const items = kind === 'choices' ? [0, 1, 2] : [0]
  const done = { ...response, status: 'completed', output: [{ type: 'message', content: [] }], usage: RESPONSES_USAGE }
  const item = { id: 'fc_1', type: 'function_call', name: 'weather', arguments: '' }
  return [
    [
      event('response.created', { response }),
      event('response.in_progress', { response }),
      ...items.map((output_index) => event('response.output_item.added', { output_index, item })),
    ],
    (delta) =>
      items.map((output_index) =>
        event(`response.${name}.delta`, { item_id: 'a', output_index, delta, obfuscation: 'x' }),
      ),
    [
      ...items.map((output_index) => event(`response.${name}.done`, { output_index, text: tokensOf[kind].join('') })),
      event('response.completed', { response: done }),
    ],
  ]
}

const MESSAGES_INPUT = {
  input_tokens: 200,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 1000,
  cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 },
}

function messages(kind: Kind): Shape {
  const event = (type: string, rest: object): string => `event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}\n\n`
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'claude', content: [], stop_reason: null }
  const starts: Readonly<Partial<Record<Kind, object>>> = {
    tool: { type: 'tool_use', id: 'toolu_1', name: 'weather', input: {} },
    reasoning: { type: 'thinking', thinking: '', signature: '' },
  }
  const deltas: Readonly<Partial<Record<Kind, (text: string) => object>>> = {
    tool: (text) => ({ type: 'input_json_delta', partial_json: text }),
    reasoning: (thinking) => ({ type: 'thinking_delta', thinking }),
  }
  const blocks = kind === 'choices' ? [0, 1, 2] : [0]
  const block = starts[kind] ?? { type: 'text', text: '' }
  const say = deltas[kind] ?? ((text: string) => ({ type: 'text_delta', text }))
  const usage = { ...MESSAGES_INPUT, output_tokens: 1 }
  return [
    [
      event('message_start', { message: { ...message, usage } }),
      ...blocks.map((index) => event('content_block_start', { index, content_block: block })),
      event('ping', {}),
    ],
    (text) => blocks.map((index) => event('content_block_delta', { index, delta: say(text) })),
    [
      ...blocks.map((index) => event('content_block_stop', { index })),
      event('message_delta', {
        delta: { stop_reason: 'end_turn', stop_sequence: null },
        // The tokens of the prompt are left out by older versions of the API.
        usage: { output_tokens: 345, output_tokens_details: { thinking_tokens: 64 } },
      }),
      event('message_stop', {}),
    ],
  ]
}

/** Answers that are not streamed. */
export const WHOLE: Readonly<Record<Api, object>> = {
  chat: {
    id: 'chatcmpl-1',
    object: 'chat.completion',
    choices: [0, 1].map((index) => ({
      index,
      message: { role: 'assistant', content: text.join(''), refusal: null },
      finish_reason: 'stop',
    })),
    usage: CHAT_USAGE,
  },
  responses: {
    id: 'resp_1',
    object: 'response',
    status: 'completed',
    output: [{ type: 'message', role: 'assistant', content: [{ type: 'output_text', text: text.join('') }] }],
    usage: RESPONSES_USAGE,
    metadata: {},
  },
  messages: {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    content: [
      { type: 'thinking', thinking: reasoning.join(''), signature: 'c2ln' },
      { type: 'tool_use', id: 'toolu_1', name: 'weather', input: { city: 'Berlin' } },
    ],
    stop_reason: 'tool_use',
    usage: { ...MESSAGES_INPUT, output_tokens: 345, output_tokens_details: { thinking_tokens: 64 } },
  },
}
