import type { Hono } from 'hono'
import type { RateLimitOptions } from '../../../adapters/hono/index.ts'
import { timesOf } from '../framework.ts'

export const times: (quota: number, options?: Partial<RateLimitOptions>) => RateLimitOptions = timesOf<RateLimitOptions>

/** Returns the remaining units; '' without the header, '!' for a denial. */
export async function left(app: Hono, path = '/', method = 'GET'): Promise<string> {
  const { status, headers } = await app.request(path, { method })
  return status === 429 ? '!' : (/;r=(\d+)/.exec(headers.get('ratelimit') ?? '')?.[1] ?? '')
}
