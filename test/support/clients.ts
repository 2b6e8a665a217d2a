// Clients that programs use, and as much of their types as tests need.
import { importOwn } from './own-packages.ts'

/** An error of a client of a language model, for a status. */
export type ModelError = new (...rest: never) => {
  readonly status: number
  readonly message: string
  readonly headers: Headers
}

/** Events as they arrive. */
export type Stream<Event> = AsyncIterable<Event> & { readonly controller: AbortController }

interface ModelOptions {
  readonly apiKey: string
  readonly baseURL: string
  readonly maxRetries?: number
}

interface ModelRequest {
  readonly model: string
  readonly messages: readonly { readonly role: 'user'; readonly content: string }[]
  readonly max_completion_tokens?: number
  readonly max_tokens?: number
}

/** Sends a request to a model: for the whole answer, or for its events. */
interface Create<Answer, Event> {
  (request: ModelRequest & { readonly stream: true }): Promise<Stream<Event>>
  (request: ModelRequest): Promise<Answer>
}

interface Completion {
  readonly choices: readonly { readonly message: { readonly content: string | null } }[]
  readonly usage?: { readonly total_tokens: number }
}

interface CompletionEvent {
  readonly choices: readonly { readonly delta: { readonly content?: string | null } }[]
}

export interface OpenAIClient {
  readonly chat: { readonly completions: { readonly create: Create<Completion, CompletionEvent> } }
}

interface Message {
  readonly content: readonly { readonly type: string; readonly text: string }[]
  readonly usage: { readonly input_tokens: number; readonly output_tokens: number }
}

type MessageEvent =
  | { readonly type: 'message_start'; readonly message: { readonly usage: { readonly input_tokens: number } } }
  | { readonly type: 'message_delta'; readonly usage: { readonly output_tokens: number } }
  | { readonly type: 'content_block_delta'; readonly delta: { readonly type: 'text_delta'; readonly text: string } }

export interface AnthropicClient {
  readonly messages: { readonly create: Create<Message, MessageEvent> }
}

interface Models<Client> {
  new (options: ModelOptions): Client
  readonly RateLimitError: ModelError
}

interface OctokitClient {
  request(route: string): Promise<{ readonly data: unknown }>
}

interface RateLimitInfo {
  readonly limit: number
  readonly used: number
  readonly remaining: number
  readonly reset?: Date
}

interface Clients {
  readonly Anthropic: Models<AnthropicClient>
  readonly OpenAI: Models<OpenAIClient>
  readonly Octokit: { plugin(plugin: unknown): new (options: object) => OctokitClient }
  readonly throttling: unknown
  readonly axios: { create(options: object): { get(path: string): Promise<{ readonly data: string }> } }
  readonly axiosRetry: (client: unknown, options: { readonly retries: number }) => unknown
  readonly got: (url: string) => { text(): Promise<string> }
  readonly ky: (url: string) => { text(): Promise<string> }
  readonly parseRateLimit: (from: Response | Readonly<Record<string, string>>) => RateLimitInfo | undefined
}

const clients = await importOwn<Clients>('clients')
export const Anthropic: Clients['Anthropic'] = clients.Anthropic
export const OpenAI: Clients['OpenAI'] = clients.OpenAI
export const Octokit: Clients['Octokit'] = clients.Octokit
export const throttling: Clients['throttling'] = clients.throttling
export const axios: Clients['axios'] = clients.axios
export const axiosRetry: Clients['axiosRetry'] = clients.axiosRetry
export const got: Clients['got'] = clients.got
export const ky: Clients['ky'] = clients.ky
export const parseRateLimit: Clients['parseRateLimit'] = clients.parseRateLimit
