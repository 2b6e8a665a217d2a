// A module of an app, for tests that evaluate it again as a development server does.
import {
  type Clock,
  createLimiter,
  everyone,
  type Limiter,
  memoryStore,
  perMinute,
  type Store,
} from '../../src/index.ts'

const byUser = (user: string): string => user

/** With a function of the module. */
export function limiterOn(store: Store, shared: boolean): Limiter<string> {
  return createLimiter({ name: 'reloaded', keyer: byUser, limits: perMinute(2), store, shared })
}

/** With data alone. */
export function dataLimiterOn(store: Store): Limiter<string> {
  return createLimiter<string>({ name: 'reloaded', keyer: everyone, limits: [perMinute(2)], store })
}

/** With a store of the module. */
export function ownLimiter(clock: Clock): Limiter<string> {
  return createLimiter({ name: 'reloaded', keyer: byUser, limits: perMinute(2), store: memoryStore({ clock }) })
}
