import { once } from 'node:events'
import http from 'node:http'
import { connect, type Socket } from 'node:net'
import type { Served } from './harness.ts'

export interface Reply {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  readonly body: string
}

export interface Ask {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** Sends one request on its own connection, and returns the complete reply. */
export async function ask({ url }: Pick<Served, 'url'>, path = '/', options: Ask = {}): Promise<Reply> {
  const request = http.request(url + path, { ...options, agent: false }).end()
  const [response] = (await once(request, 'response')) as [http.IncomingMessage]
  let body = ''
  for await (const chunk of response.setEncoding('utf8')) body += chunk as string
  return { status: response.statusCode!, headers: response.headers, body }
}

/** Sends requests one after another, and returns their statuses. */
export async function statuses(server: Served, count: number, options?: Ask, path?: string): Promise<number[]> {
  const seen: number[] = []
  for (let i = 0; i < count; i++) seen.push((await ask(server, path, options)).status)
  return seen
}

/** Returns the rate-limit headers of a reply, and `Retry-After`. */
export function limitHeaders({ headers }: Reply): Record<string, unknown> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => /ratelimit|retry-after/.test(name)))
}

/** Sends a request on a socket that the test can close. */
export async function dial({ url }: Pick<Served, 'url'>, path = '/'): Promise<Socket> {
  const { port, hostname } = new URL(url)
  const socket = connect(Number(port), hostname)
  await once(socket, 'connect')
  socket.on('error', () => undefined)
  socket.write(`GET ${path} HTTP/1.1\r\nHost: ${hostname}\r\n\r\n`)
  return socket
}

/** Waits until a condition is true. For events on the other side of a socket. */
export async function until(so: () => unknown, what: string): Promise<void> {
  const deadline = Date.now() + 5000
  while (!so()) {
    if (Date.now() > deadline) throw new Error(`No sign of ${what} within 5 s`)
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
}

/** Returns the codes of the warnings that are emitted while `during` runs. They are not printed. */
export async function warningsOf(during: () => unknown): Promise<readonly string[]> {
  const codes: string[] = []
  const printers = process.listeners('warning')
  process.removeAllListeners('warning')
  const note = (warning: Error & { code?: string }): void => void codes.push(warning.code ?? warning.name)
  process.on('warning', note)
  try {
    await during()
    // Warnings are emitted in the next turn.
    await new Promise((resolve) => setImmediate(resolve))
  } finally {
    process.off('warning', note)
    for (const printer of printers) process.on('warning', printer)
  }
  return codes
}
