/** The parts of a Node request that tell whether its body has arrived. */
export interface NodeRequest {
  readonly httpVersionMajor: number
  readonly complete?: boolean
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
}

/**
 * Returns true for an HTTP/1 request whose body has not arrived. Node reads it to its end after the response, unless the
 * connection closes. In HTTP/2 Node resets the stream by itself.
 */
export function hasUnreadBody({ httpVersionMajor, complete, headers }: NodeRequest): boolean {
  if (httpVersionMajor >= 2 || complete === true) return false
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}
