import express5, { type RequestHandler } from 'express'
import express4 from 'express4'
import type { RateLimitOptions } from '../../../adapters/express/index.ts'
import { ask, type Served } from '../../support/http.ts'
import { leftOf, timesOf } from '../framework.ts'

export const versions: readonly (readonly [name: string, express: typeof express5])[] = [
  ['Express 4', express4],
  ['Express 5', express5],
]

export const times: (quota: number, options?: Partial<RateLimitOptions>) => RateLimitOptions = timesOf<RateLimitOptions>

export const ok: RequestHandler = (_request, response) => void response.send('ok')

/** Returns the remaining units; '' without the header, '!' for a denial. */
export async function left(server: Pick<Served, 'url'>, path: string, method = 'GET', headers = {}): Promise<string> {
  const reply = await ask(server, path, { method, headers })
  return reply.status === 429 ? '!' : (/;r=(\d+)/.exec(String(reply.headers['ratelimit']))?.[1] ?? '')
}

/** Does so for several requests. */
export const lefts = (server: Pick<Served, 'url'>, ...requests: readonly string[]): Promise<string> =>
  leftOf(requests, (path, method) => left(server, path, method))
