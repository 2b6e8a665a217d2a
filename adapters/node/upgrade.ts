import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import type { HttpAdapter } from '../../src/http/adapter.ts'
import { rawResponse } from '../../src/http/denial.ts'
import { whenClosed } from '../../src/http/response/node.ts'
import { requestAdapter } from './request.ts'

/** A socket whose client asks to change the protocol, and the headers of a denial. */
export interface Upgrade {
  readonly socket: Duplex
  readonly headers: Map<string, string>
}

export const upgradeAdapter: HttpAdapter<IncomingMessage, Upgrade, undefined, never> = {
  ...requestAdapter,
  getHeader: ({ headers }, name) => headers.get(name),
  setHeader: ({ headers }, name, value) => void headers.set(name, value),
  headersSent: ({ socket }) => socket.destroyed,
  getStatus: () => 101,
  sendDenial: ({ socket, headers }, status, body) =>
    closeWith(socket, rawResponse({ status, headers: [...headers], body })),
  onEnd: ({ socket }, listener) => whenClosed(socket, listener),
  callOnDenied: () => undefined,
}

/** Sends a 500 and closes the socket. */
export function closeWithFault(socket: Duplex): void {
  closeWith(socket, 'HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\nContent-Length: 0\r\n\r\n')
}

function closeWith(socket: Duplex, text: string): void {
  if (socket.destroyed) return
  socket.once('finish', () => socket.destroy())
  socket.end(text)
}
