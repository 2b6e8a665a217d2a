import type { Clock } from '../../util/clock.ts'
import { createLimiter, type Limiter } from '../../limiter/limiter.ts'
import type { LimiterOptions } from '../../limiter/options.ts'
import type { MaybePromise } from '../../util/maybe-promise.ts'
import type { Store } from '../../stores/store.ts'
import { type VirtualClock, virtualClock } from '../virtual-clock.ts'

/** Makes a store that is new and empty, and goes by this clock. */
export type MakeStore = (clock: Clock) => MaybePromise<Store>

/** A store, its clock, and limiters on it whose inputs are their keys. */
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

/** Whether each of so many requests was admitted, one after another. */
export async function verdicts(limiter: Limiter<string>, key: string, times: number, cost = 1): Promise<boolean[]> {
  const seen: boolean[] = []
  for (let i = 0; i < times; i++) seen.push((await limiter.consume(key, { cost })).allowed)
  return seen
}
