import { createLimiter, type Decision, type Limiter, type Limits, type Store, type SyncStore } from '../../src/index.ts'

/** Makes a limiter whose inputs are its keys. It shares its counts with earlier ones on the store, as after a deployment. */
export function keyed(store: SyncStore, limits: Limits<string>, name?: string): Limiter<string, Decision>
export function keyed(store: Store, limits: Limits<string>, name?: string): Limiter<string>
export function keyed(store: Store, limits: Limits<string>, name = 'test'): Limiter<string> {
  return createLimiter<string>({ name, keyer: (key) => key, limits, store, shared: true })
}

/** Returns the units that remain to a key under each limit. */
export async function left(limiter: Limiter<string>, key = 'k'): Promise<number[]> {
  return (await limiter.peek(key, { cost: 0 })).limits.map(({ remaining }) => remaining)
}
