import type { Clock } from '../../util/clock.ts'
import { createLimiter, type Limiter } from '../../limiter/limiter.ts'
import type { LimiterOptions } from '../../limiter/options.ts'
import type { MaybePromise } from '../../util/maybe-promise.ts'
import type { Store } from '../../stores/store.ts'
import { type VirtualClock, virtualClock } from '../virtual-clock.ts'

/** Makes a new, empty store that uses this clock. */
export type MakeStore = (clock: Clock) => MaybePromise<Store>

/** A store, its clock, and a function that makes limiters on it. Their inputs are the keys. */
export interface World {
  readonly store: Store
  readonly clock: VirtualClock
  on(limits: LimiterOptions<string>['limits'], options?: Partial<LimiterOptions<string>>): Limiter<string>
  close(): Promise<void>
}

export type Cases = Readonly<Record<string, (world: World) => Promise<void>>>

export async function createWorld(makeStore: MakeStore): Promise<World> {
  const clock = virtualClock()
  const store = await makeStore(clock)
  return {
    store,
    clock,
    on: (limits, options) => createLimiter<string>({ keyer: (key) => key, limits, store, ...options }),
    close: async () => store.close(),
  }
}

/** Makes requests one after another and returns whether each was admitted. */
export async function verdicts(limiter: Limiter<string>, key: string, times: number, cost = 1): Promise<boolean[]> {
  const seen: boolean[] = []
  for (let i = 0; i < times; i++) seen.push((await limiter.consume(key, { cost })).allowed)
  return seen
}
