import type { ExecutionContext } from '@nestjs/common'
import { kindOf } from './context.ts'

/** The parts of a client of a gateway, of socket.io or ws. */
interface SocketClient {
  /** In socket.io. */
  readonly connected?: boolean
  readonly handshake?: { readonly address?: string; readonly headers?: Readonly<Record<string, string | undefined>> }
  /** In ws: the socket below. */
  readonly _socket?: { readonly remoteAddress?: string }
  /** In ws: 1 for an open connection. */
  readonly readyState?: number
  once?(event: string, listener: () => void): unknown
  off?(event: string, listener: () => void): unknown
}

/** Returns the address of a client of a gateway. */
export function socketAddressOf(client: object): string | undefined {
  const { handshake, _socket } = client as SocketClient
  return handshake?.address ?? _socket?.remoteAddress
}

/** Returns a header of the request that opened a connection of socket.io. A client of ws does not keep it. */
export function handshakeHeaderOf(client: object, name: string): string | undefined {
  return (client as SocketClient).handshake?.headers?.[name]
}

/**
 * Calls `listener` once, and never synchronously, when the client of a message has gone. A microservice does not say when.
 * @returns a function that removes the listener
 */
export function whenDisconnected(context: ExecutionContext, listener: () => void): () => void {
  if (kindOf(context) !== 'ws') return () => undefined
  const client = context.switchToWs().getClient<SocketClient>()
  if (client.connected === false || (client.readyState !== undefined && client.readyState !== 1)) {
    queueMicrotask(listener)
    return () => undefined
  }
  const event = client.connected === undefined ? 'close' : 'disconnect'
  client.once?.(event, listener)
  return () => void client.off?.(event, listener)
}
