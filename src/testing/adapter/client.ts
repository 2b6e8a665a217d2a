import { once } from 'node:events'
import http from 'node:http'
import { connect, type Socket } from 'node:net'
import type { Served } from './harness.ts'

export interface Reply {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  /** The headers as they were sent: name, value, name, value, … */
  readonly rawHeaders: readonly string[]
  readonly body: string
}

export interface Ask {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/** Sends one request on its own connection, and returns the complete reply. */
export async function ask({ url }: Pick<Served, 'url'>, path = '/', { body, ...options }: Ask = {}): Promise<Reply> {
  return replyTo(http.request(url + path, { ...options, agent: false }).end(body))
}

/** Returns the complete reply to a request that was sent. */
export async function replyTo(request: http.ClientRequest): Promise<Reply> {
  const [response] = (await once(request, 'response')) as [http.IncomingMessage]
  let body = ''
  for await (const chunk of response.setEncoding('utf8')) body += chunk as string
  return { status: response.statusCode!, headers: response.headers, rawHeaders: response.rawHeaders, body }
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
export async function dial(server: Pick<Served, 'url'>, path = '/', headers = ''): Promise<Socket> {
  const socket = await connected(server)
  socket.write(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${headers}\r\n`)
  return socket
}

/** Opens a connection to a server, which may break at any time. */
export async function connected({ url }: Pick<Served, 'url'>, options: { allowHalfOpen?: true } = {}): Promise<Socket> {
  const { port, hostname } = new URL(url)
  const socket = connect({ port: Number(port), host: hostname, ...options })
  await once(socket, 'connect')
  return socket.on('error', () => undefined)
}

/** A client that writes a body by hand. */
export interface Upload {
  /** Returns everything that the server has sent. */
  received(): string
  /** Writes bytes of the body. Returns false if the server has closed or reset the connection. */
  write(bytes: number): Promise<boolean>
  /** Writes a text. */
  send(text: string): void
  close(): void
}

/** Begins an upload of `bytes` bytes, and writes none of them. */
export async function beginUpload(server: Pick<Served, 'url'>, bytes: number): Promise<Upload> {
  const socket = await connected(server)
  let received = ''
  socket.on('data', (data) => (received += String(data)))
  socket.write(`POST / HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: ${bytes}\r\n\r\n`)
  return {
    received: () => received,
    async write(count) {
      const written = new Promise<boolean>((resolve) => {
        socket.write('x'.repeat(count), (error) => resolve(error === undefined || error === null))
      })
      const isWritten = await written
      // A reset comes a little later.
      await new Promise((resolve) => setTimeout(resolve, 5))
      return isWritten && !socket.destroyed && !socket.readableEnded
    },
    send: (text) => void socket.write(text),
    close: () => void socket.destroy(),
  }
}
