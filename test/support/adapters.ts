import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './programs.ts'

/** What tests need to know of an adapter, except for how to use its framework. */
interface Adapter {
  /** What it may import in addition to the package itself: only types, except for Fastify's channel and for Nest. */
  readonly imports: readonly string[]
  /** Some of its exports. */
  readonly exports: readonly string[]
}

const usual = ['byIP', 'byRoute', 'ipKeyer', 'rateLimit']

/** Every adapter, by its folder. */
export const adapters: Readonly<Record<string, Adapter>> = {
  express: { imports: ['express', 'node:http', 'node:diagnostics_channel'], exports: usual },
  fastify: { imports: ['fastify', 'fastify-plugin', 'node:http', 'node:diagnostics_channel'], exports: usual },
  fetch: { imports: [], exports: ['byHeader', 'ipKeyer', 'rateLimit', 'rateLimitOf'] },
  hono: { imports: ['hono'], exports: [...usual, 'routeKeyer'] },
  koa: { imports: ['koa', 'node:http'], exports: usual },
  nestjs: {
    imports: ['@nestjs/common', '@nestjs/core', 'node:async_hooks', 'node:http'],
    exports: ['byIP', 'RateLimit', 'RateLimitException', 'RateLimitGuard', 'RateLimitModule', 'SkipRateLimit'],
  },
  node: { imports: ['node:http', 'node:stream'], exports: ['byIP', 'ipKeyer', 'rateLimit', 'rateLimitOf'] },
}

/** Returns the folders in `adapters/`. */
export function adapterFolders(): string[] {
  const entries = readdirSync(join(root, 'adapters'), { withFileTypes: true })
  return entries.flatMap((each) => (each.isDirectory() ? [each.name] : [])).toSorted()
}

/** Returns the exports of every adapter. */
export async function modulesOfAdapters(): Promise<Readonly<Record<string, Readonly<Record<string, unknown>>>>> {
  const load = async (name: string): Promise<[string, Record<string, unknown>]> => [
    name,
    (await import(`../../adapters/${name}/index.ts`)) as Record<string, unknown>,
  ]
  return Object.fromEntries(await Promise.all(Object.keys(adapters).map(load)))
}
