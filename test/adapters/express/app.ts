import express5, { type RequestHandler } from 'express'
import express4 from 'express4'
import type { RateLimitOptions } from '../../../adapters/express/index.ts'
import { fixedWindow } from '../../../src/engine/factories.ts'
import { everyone } from '../../../src/limiter/keyers.ts'
import { ask, type Served } from '../../support/http.ts'

export const versions: readonly (readonly [name: string, express: typeof express5])[] = [
  ['Express 4', express4],
  ['Express 5', express5],
]

/** Returns options with one quota for everyone. */
export const times = (quota: number, options: Partial<RateLimitOptions> = {}): RateLimitOptions =>
  ({ keyer: everyone, limits: fixedWindow({ quota, window: '1h' }), ...options }) as RateLimitOptions

export const ok: RequestHandler = (_request, response) => void response.send('ok')

/** Returns the remaining units; '' without the header, '!' for a denial. */
export async function left(server: Pick<Served, 'url'>, path: string, method = 'GET', headers = {}): Promise<string> {
  const reply = await ask(server, path, { method, headers })
  return reply.status === 429 ? '!' : (/;r=(\d+)/.exec(String(reply.headers['ratelimit']))?.[1] ?? '')
}
