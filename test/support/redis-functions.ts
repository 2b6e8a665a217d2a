import type { Redis } from 'ioredis'
import { fixedWindow, type Limiter, slidingWindowLog } from '../../src/index.ts'
import { type RedisClient, redisStore } from '../../src/stores/redis/index.ts'
import { keyed } from './limiters.ts'
import { until } from './redis-tests.ts'

/** How often a command was carried out since the last `RESETSTAT`. */
export async function calls(client: Redis, command: string): Promise<number> {
  const stats = await client.info('commandstats')
  const [, all, rejected, failed] =
    new RegExp(`cmdstat_${command}:calls=(\\d+).*rejected_calls=(\\d+),failed_calls=(\\d+)`).exec(stats) ?? []
  return all === undefined ? 0 : Number(all) - Number(rejected) - Number(failed)
}

export async function libraries(client: Redis): Promise<string[]> {
  const list = (await client.call('FUNCTION', 'LIST')) as string[][]
  return list.map((each) => each[1]!)
}

export function limiterFor(client: RedisClient, quota: number, name = 'test'): Limiter<string> {
  const limits = [
    fixedWindow({ quota, window: '1d', name: 'f' }),
    slidingWindowLog({ quota: quota + 5, window: '1d', name: 'l' }),
  ]
  return keyed(redisStore(client), limits, name)
}

/** Asks so often, in turns of twenty; how many were admitted. */
export async function admitted(limiter: Limiter<string>, asks: number): Promise<number> {
  let count = 0
  for (let i = 0; i < asks; i += 20) {
    const decisions = await Promise.all(Array.from({ length: 20 }, () => limiter.consume('k')))
    count += decisions.filter(({ allowed }) => allowed).length
  }
  return count
}

/** Asks until a decision was made by a function. */
export async function functionsCalled(client: Redis, limiter: Limiter<string>): Promise<void> {
  await client.config('RESETSTAT')
  await until(async () => {
    await limiter.peek('k')
    return (await calls(client, 'fcall')) > 0
  })
}
