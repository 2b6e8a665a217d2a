import { once } from 'node:events'
import { promises } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, isIPv6, type Socket } from 'node:net'
import { discardBody } from '../../http/response/unread-body.ts'
import { ClientGone, type Service } from '../../service/service.ts'
import { SluiceError } from '../../util/errors.ts'

export type Address = { readonly host: string; readonly port: number } | { readonly socket: string }

/** The longest time for a request to arrive, and for its headers, in milliseconds. */
const REQUEST_MS = 10_000
const HEADERS_MS = 5000
/**
 * The longest time for an idle connection, in milliseconds. It is longer than in proxies (nginx: 60 seconds). Otherwise a proxy could send a
 * request while the server closes the connection.
 */
const IDLE_MS = 75_000
/** The most bytes of the headers of a request. By default, nginx and Envoy accept up to 32 and 60 kB from a client, and pass them on. */
const MOST_HEADERS = 65_536
/** The largest number of connections. Each may have a body of 64 kB in memory. */
const MOST_CONNECTIONS = 4096
/** The longest time for open requests after a signal, in milliseconds. */
const END_MS = 10_000

export function serverOf(service: Service): Server {
  const settings = {
    requestTimeout: REQUEST_MS,
    headersTimeout: HEADERS_MS,
    keepAliveTimeout: IDLE_MS,
    connectionsCheckingInterval: 1000,
    maxHeaderSize: MOST_HEADERS,
  }
  const server = createServer(settings, (request, response) => {
    answer(request, response).catch(() => response.destroy())
  })
  server.maxConnections = MOST_CONNECTIONS
  return server

  /** Rejects when the client has disconnected. */
  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '', headers } = request
    const found = await service.answer({ method, target: url, headers, body: (most) => bodyOf(request, most) })
    if (!server.listening) response.shouldKeepAlive = false
    discardBody(request, response)
    response.writeHead(found.status, { ...found.headers, 'Content-Length': Buffer.byteLength(found.body) })
    response.end(found.body)
  }
}

/**
 * Reads a body of at most `most` bytes. The server ends a request that takes too long. Chunks are copied, because each one that is kept takes 200 bytes, and a
 * client can send chunks of one byte.
 */
function bodyOf(request: IncomingMessage, most: number): Promise<Uint8Array | 413> {
  return new Promise((resolve, reject) => {
    const whole = Buffer.allocUnsafe(Math.min(Number(request.headers['content-length'] ?? most), most))
    let length = 0
    function take(chunk: Buffer): void {
      if (length + chunk.length <= whole.length) return void (length += chunk.copy(whole, length))
      request.off('data', take).pause()
      resolve(413)
    }
    request.on('data', take)
    request.once('end', () => resolve(whole.subarray(0, length)))
    request.once('close', () => reject(new ClientGone()))
  })
}

/** Listens until SIGTERM or SIGINT, then answers the open requests. `started` receives the address for clients. */
export async function serveUntilStopped(
  server: Server,
  address: Address,
  started: (where: string) => void,
): Promise<void> {
  const connections = new Set<Socket>()
  server.on('connection', (socket) => {
    connections.add(socket)
    socket.once('close', () => connections.delete(socket))
  })
  await listen(server, address)
  const stopped = signal()
  started(whereOf(server))
  await stopped
  const closed = once(server, 'close')
  server.close()
  // Only after its first request, `close` ends a connection that is idle.
  for (const each of connections) if (each.bytesRead === 0) each.destroy()
  const late = setTimeout(() => server.closeAllConnections(), END_MS)
  await closed
  clearTimeout(late)
}

/** Resolves at the first signal. The next one ends the process. */
function signal(): Promise<void> {
  const signals = ['SIGTERM', 'SIGINT'] as const
  return new Promise((resolve) => {
    function stop(): void {
      for (const each of signals) process.off(each, stop)
      resolve()
    }
    for (const each of signals) process.on(each, stop)
  })
}

async function listen(server: Server, address: Address): Promise<void> {
  try {
    await listening(server, address)
  } catch (error) {
    const isTaken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE'
    if (!('socket' in address) || !isTaken || !(await isLeftOver(address.socket))) throw notServed(error)
    await promises.unlink(address.socket)
    await listening(server, address)
  }
}

async function listening(server: Server, address: Address): Promise<void> {
  if ('socket' in address) listenAtFile(server, address.socket)
  else server.listen(address)
  await once(server, 'listening')
}

/** Listens at a socket file. Only its user and its group may write to the file, so only they can connect. The file is created within this call. */
function listenAtFile(server: Server, file: string): void {
  const before = process.umask(0o117)
  try {
    server.listen(file)
  } finally {
    process.umask(before)
  }
}

function notServed(cause: unknown): SluiceError {
  return new SluiceError('NOT_APPLICABLE', `The service cannot listen: ${(cause as Error).message}`, { cause })
}

/** Returns true for a socket file whose process was killed. */
async function isLeftOver(path: string): Promise<boolean> {
  // A connection to any other kind of file is also refused.
  const isSocket = (await promises.stat(path)).isSocket()
  return isSocket && (await isRefused(path))
}

function isRefused(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path)
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code === 'ECONNREFUSED'))
    socket.once('connect', () => {
      socket.destroy()
      resolve(false)
    })
  })
}

function whereOf(server: Server): string {
  const address = server.address() as AddressInfo | string
  if (typeof address === 'string') return address
  return `http://${isIPv6(address.address) ? `[${address.address}]` : address.address}:${address.port}`
}
