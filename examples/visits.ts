import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A request that an example sends to itself: a line such as `'POST /login'`, and optional headers. */
export type Visit = string | readonly [line: string, headers: Readonly<Record<string, string>>]

/** What a client sees of the response. */
export interface Answer {
  readonly line: string
  readonly status: number
  readonly retryAfter: string | null
  readonly rateLimit: string | null
  readonly policy: string | null
  readonly body: string
}

export async function visit(url: string, visit: Visit): Promise<Answer> {
  const [line, headers] = typeof visit === 'string' ? [visit, {}] : visit
  const [method = 'GET', path = '/'] = line.split(' ')
  const response = await fetch(new URL(path, url), { method, headers })
  return {
    line,
    status: response.status,
    retryAfter: response.headers.get('Retry-After'),
    rateLimit: response.headers.get('RateLimit'),
    policy: response.headers.get('RateLimit-Policy'),
    body: await response.text(),
  }
}

/** Prints where the server listens. With `--once`, also sends these requests, prints the responses and closes. */
export async function serve(server: Server, visits: readonly Visit[]): Promise<void> {
  if (!server.listening) await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  console.log(`listening on ${url}`)
  if (!process.argv.includes('--once')) return
  for (const each of visits) {
    const { line, status, rateLimit, retryAfter, body } = await visit(url, each)
    console.log(`${line}: ${status}${headerText('RateLimit', rateLimit)}${headerText('Retry-After', retryAfter)}`)
    console.log(`  ${body}`)
  }
  server.close()
  server.closeAllConnections()
}

function headerText(field: string, value: string | null): string {
  return value === null ? '' : `, ${field}: ${value}`
}
