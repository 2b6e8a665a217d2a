import { wholeNumber } from '../util/validate.ts'

/** JSON of a client or of a model. Its members may have any type. */
export type Json = Readonly<Record<string, unknown>>

/** Returns the members of an object, and none of any other value. */
export function membersOf(value: unknown): Json {
  return typeof value === 'object' && value !== null ? (value as Json) : {}
}

/** Larger numbers are ignored: no request has this many tokens. */
const MOST = 1e9

/** Returns a number of tokens, or undefined for anything else. */
export function tokenCount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= MOST ? value : undefined
}

/** For each range of UTF-16 code units: its end, and the most tokens for a code unit in usual text. */
const WEIGHTS: readonly (readonly [end: number, tokens: number])[] = [
  [0x20, 0.5], // line ends and tabs
  [0x21, 0.15], // spaces
  [0x30, 0.85],
  [0x3a, 0.8], // digits
  [0x41, 0.85],
  [0x5b, 0.8], // A to Z
  [0x61, 0.85],
  [0x7b, 0.35], // a to z
  [0x80, 0.85],
  [0x250, 1.4], // letters with accents
  [0x800, 1.15], // Greek, Cyrillic, Hebrew, Arabic
  [0x1000, 2], // scripts of India, Thai
  [0x2000, 2.7], // Georgian, Ethiopic, Khmer
  [0xa000, 1.5], // symbols, Japanese, Chinese
  [0xac00, 2.7],
  [0x10000, 1.5], // Korean, and halves of emoji
]

const ASCII: Float64Array = Float64Array.from({ length: 128 }, (_, code) => weightOf(code))

function weightOf(code: number): number {
  return WEIGHTS.find(([end]) => code < end)![1]
}

/** Returns an upper estimate of the tokens of a text, not rounded. The parts of a text have the same sum as the whole text. */
export function textTokens(text: string): number {
  let tokens = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    tokens += code < 128 ? ASCII[code]! : weightOf(code)
  }
  return tokens
}

const IMAGES: ReadonlySet<unknown> = new Set(['image', 'image_url', 'input_image', 'computer_screenshot'])
/** The members that contain an image or its address. */
const IMAGE_DATA: ReadonlySet<string> = new Set(['image_url', 'source'])

/** Returns the tokens of all texts, names and numbers in JSON, of any depth. */
function jsonTokens(json: unknown, image: number): number {
  let tokens = 0
  const rest = [json]
  while (rest.length > 0) {
    const value = rest.pop()
    if (typeof value === 'string') tokens += textTokens(value)
    else if (typeof value === 'number') tokens += textTokens(String(value))
    else if (Array.isArray(value)) for (const each of value as unknown[]) rest.push(each)
    else {
      const isImage = IMAGES.has(membersOf(value).type)
      if (isImage) tokens += image
      for (const [name, member] of Object.entries(membersOf(value))) {
        tokens += textTokens(name)
        if (!isImage || !IMAGE_DATA.has(name)) rest.push(member)
      }
    }
  }
  return tokens
}

/** The options of `estimateTokens`. */
export interface EstimateOptions {
  /** The most tokens of an image. Default 1600, enough for most models of Anthropic and for GPT-4o. GPT-4o mini counts up to 48,169. */
  readonly image?: number
}

/** The tokens that a provider adds at the start and the end of a prompt, and those that it adds to explain tools to the model. */
const FRAME = 10
const TOOLS = 500

/**
 * Returns an upper estimate of the tokens of a prompt: of the body of a request to OpenAI (chat completions, responses) or Anthropic (messages).
 * It counts all texts, names and numbers by their script, and a fixed number for each image. For English the estimate is about 1.6 × the
 * real number. Files and sound in the body count as text, so their estimate is far too high. Content that the body only refers to, such as
 * a stored file or an earlier response, is not counted. Throws `INVALID_OPTION` for a wrong `image`.
 * @example estimateTokens({ model: 'gpt-4o', messages: [{ role: 'user', content: 'Tell me a story.' }] })
 */
export function estimateTokens(body: unknown, { image = 1600 }: EstimateOptions = {}): number {
  wholeNumber('image', image, 0)
  const { tools } = membersOf(body)
  const more = Array.isArray(tools) && tools.length > 0 ? TOOLS : 0
  return Math.min(MOST, Math.ceil(jsonTokens(body, image) + FRAME + more))
}

/**
 * Returns the most tokens that an answer may have: the largest of `max_completion_tokens`, `max_tokens` and `max_output_tokens` of the body,
 * times the number of choices `n`. If the body sets none of the three, `otherwise` is used: also send this number to the model. A text such as `'500'`
 * counts as its number, because some servers read it. The result is at most a billion. Throws `INVALID_OPTION` if `otherwise` is not a whole number from 1.
 * @example answerTokens({ max_completion_tokens: 500, n: 2 }, 1000) // 1000
 */
export function answerTokens(body: unknown, otherwise: number): number {
  wholeNumber('answerTokens', otherwise)
  const { max_completion_tokens, max_tokens, max_output_tokens, n } = membersOf(body)
  const most = Math.max(...[max_completion_tokens, max_tokens, max_output_tokens].map(asked)) || otherwise
  return Math.min(MOST, most * (asked(n) || 1))
}

/** Returns a number that a client asks for; 0 for none. Some servers also read texts, so a text that is not clear counts as the most. */
function asked(value: unknown): number {
  const number = typeof value === 'string' ? Number(value) : value
  if (Number.isNaN(number)) return MOST
  return typeof number === 'number' && number >= 1 ? Math.min(MOST, Math.ceil(number)) : 0
}
