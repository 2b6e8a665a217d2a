import type { Redis } from 'ioredis'
import { afterEach, beforeEach } from 'vitest'
import {
  createLimiter,
  guard,
  type GuardOptions,
  type Limiter,
  type Limits,
  type StoreChange,
} from '../../src/index.ts'
import { type RedisClient, redisStore } from '../../src/stores/redis/index.ts'
import { recordWarnings } from '../../src/testing/warnings.ts'

export { recordWarnings } from '../../src/testing/warnings.ts'

/** Records the warnings of each test of a file. They are not printed. */
export function warningsOfEachTest(): Pick<ReturnType<typeof recordWarnings>, 'codes' | 'messages'> {
  let current: ReturnType<typeof recordWarnings>
  beforeEach(() => void (current = recordWarnings()))
  afterEach(() => current.stop())
  return {
    get codes() {
      return current.codes
    },
    get messages() {
      return current.messages
    },
  }
}

/** A limiter on a guarded Redis, and the changes that the guard has reported. */
export interface Guarded {
  readonly limiter: Limiter<string>
  readonly changes: StoreChange[]
  states(): string[]
}

/** Milliseconds, so many that a healthy server meets them on a machine that does much else. */
export const DEADLINE = 300

export function guardedLimiter(
  client: RedisClient | Redis,
  limits: Limits<string>,
  options: GuardOptions = {},
): Guarded {
  const changes: StoreChange[] = []
  const onChange = (change: StoreChange): void => void changes.push(change)
  const store = guard(redisStore(client), { deadline: DEADLINE, onChange, ...options })
  const limiter = createLimiter<string>({ name: 'test', keyer: (key) => key, limits, store, shared: true })
  return { limiter, changes, states: () => changes.map(({ state }) => state) }
}

/** Returns the milliseconds that a promise takes, and its value. */
export async function timed<Value>(work: () => Value | Promise<Value>): Promise<readonly [ms: number, value: Value]> {
  const since = performance.now()
  const value = await work()
  return [performance.now() - since, value]
}
