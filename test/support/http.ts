import { once } from 'node:events'
import http from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { afterTest } from './after-test.ts'

/** A listening server. */
export interface Served {
  readonly url: string
  /** Errors that reached the framework's error handling. */
  readonly errors: readonly unknown[]
  close(): Promise<void>
}

export async function serve(listener: http.RequestListener, errors: readonly unknown[] = []): Promise<Served> {
  const server = http.createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    errors,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

/** Serves until the end of the test. */
export async function serveForTest(...given: Parameters<typeof serve>): Promise<Served> {
  const served = await serve(...given)
  afterTest(() => served.close())
  return served
}

export interface Reply {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  /** As on the wire: name, value, name, value, … */
  readonly rawHeaders: readonly string[]
  readonly body: string
}

export interface Ask {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/** Sends one request over a new connection and returns the whole response. */
export async function ask({ url }: Pick<Served, 'url'>, path = '/', { body, ...options }: Ask = {}): Promise<Reply> {
  const request = http.request(url + path, { ...options, agent: false }).end(body)
  const [response] = (await once(request, 'response')) as [http.IncomingMessage]
  let text = ''
  for await (const chunk of response.setEncoding('utf8')) text += chunk as string
  const { statusCode, headers, rawHeaders } = response
  return { status: statusCode!, headers, rawHeaders, body: text }
}

/** A request that the client can abort. */
export async function dial({ url }: Pick<Served, 'url'>, path = '/', headers = ''): Promise<Socket> {
  const { port, hostname } = new URL(url)
  const socket = connect(Number(port), hostname)
  await once(socket, 'connect')
  socket.on('error', () => {})
  socket.write(`GET ${path} HTTP/1.1\r\nHost: ${hostname}\r\n${headers}\r\n`)
  return socket
}

/** Waits until a condition is met, for effects on the other side of a socket. */
export async function until(so: () => unknown, what = 'it'): Promise<void> {
  const deadline = Date.now() + 5000
  while (!so()) {
    if (Date.now() > deadline) throw new Error(`${what} did not happen`)
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
}

/** Returns the codes of the warnings during a call, which are not printed. */
export async function warningsOf(during: () => unknown): Promise<readonly string[]> {
  // What was to be emitted before is emitted now.
  await new Promise((resolve) => setImmediate(resolve))
  const codes: string[] = []
  const printers = process.listeners('warning')
  process.removeAllListeners('warning')
  process.on('warning', (warning: Error & { code?: string }) => void codes.push(warning.code ?? warning.name))
  await during()
  // Node emits warnings in the next turn.
  await new Promise((resolve) => setImmediate(resolve))
  process.removeAllListeners('warning')
  for (const printer of printers) process.on('warning', printer)
  return codes
}
