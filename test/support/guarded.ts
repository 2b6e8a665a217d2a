import type { Redis } from 'ioredis'
import { beforeEach } from 'vitest'
import {
  type AsyncStore,
  createLimiter,
  guard,
  type GuardOptions,
  type Limiter,
  type Limits,
  perMinute,
  type StoreChange,
} from '../../src/index.ts'
import { type RedisClient, redisStore } from '../../src/stores/redis/index.ts'
import { turns } from '../../src/testing/waiting.ts'
import { recordWarnings } from '../../src/testing/warnings.ts'
import { afterTest } from './after-test.ts'

export { recordWarnings } from '../../src/testing/warnings.ts'

/** Records the warnings of each test of a file, and of what ends with it. They are not printed. */
export function warningsOfEachTest(): Pick<ReturnType<typeof recordWarnings>, 'codes' | 'messages'> {
  let current: ReturnType<typeof recordWarnings>
  beforeEach(() => {
    current = recordWarnings()
    afterTest(current.stop, turns)
  })
  return {
    get codes() {
      return current.codes
    },
    get messages() {
      return current.messages
    },
  }
}

/** A limiter on a guarded store, and the changes that the guard has reported. */
export interface Guarded {
  readonly guarded: AsyncStore
  readonly limiter: Limiter<string>
  readonly changes: StoreChange[]
  states(): string[]
}

/** Milliseconds, so many that a healthy server meets them on a machine that does much else. */
export const DEADLINE = 300

/** Guards a store until the end of the test. */
export function guardedOn(
  store: AsyncStore,
  options: GuardOptions = {},
  limits: Limits<string> = perMinute(100),
): Guarded {
  const changes: StoreChange[] = []
  const guarded = guard(store, { onChange: (change) => void changes.push(change), ...options })
  afterTest(() => guarded.close())
  const limiter = createLimiter<string>({ name: 'test', keyer: (key) => key, limits, store: guarded, shared: true })
  return { guarded, limiter, changes, states: () => changes.map(({ state }) => state) }
}

export function guardedLimiter(
  client: RedisClient | Redis,
  limits: Limits<string>,
  options: GuardOptions = {},
): Guarded {
  return guardedOn(redisStore(client), { deadline: DEADLINE, ...options }, limits)
}

/** Returns the milliseconds that a promise takes, and its value. */
export async function timed<Value>(work: () => Value | Promise<Value>): Promise<readonly [ms: number, value: Value]> {
  const since = performance.now()
  const value = await work()
  return [performance.now() - since, value]
}
