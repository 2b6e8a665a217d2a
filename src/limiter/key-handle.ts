import type { Duration } from '../limits/limit.ts'
import { shown, SluiceError } from '../util/errors.ts'
import type { MaybePromise } from '../util/maybe-promise.ts'
import type { ConsumeOptions, KeyedLimiter, Limiter, Penalty } from './contract.ts'
import type { Decision } from './decision.ts'
import { composeKey, type Key, normalizeKey } from './keyers.ts'
import type { WaitOptions } from './waiter.ts'

/** Returns the methods of a limiter for one input. */
export function handleOf<Input>(limiter: Limiter<Input>, input: Input): KeyedLimiter {
  return {
    consume: (options?: ConsumeOptions): MaybePromise<Decision> => limiter.consume(input, options),
    peek: (options?: ConsumeOptions): MaybePromise<Decision> => limiter.peek(input, options),
    wait: (options?: WaitOptions): Promise<Decision> => limiter.wait(input, options),
    reset: (): MaybePromise<void> => limiter.reset(input),
    block: (duration: Duration): MaybePromise<void> => limiter.block(input, duration),
    pause: (duration: Duration): MaybePromise<void> => limiter.pause(input, duration),
    penalize: (units: Penalty): MaybePromise<void> => limiter.penalize(input, units),
  } as KeyedLimiter
}

/** Returns a key that is given in place of an input. Throws `INVALID_KEY`. */
export function givenKey(key: Key | readonly (Key | undefined)[]): Key {
  if (Array.isArray(key) && key.length > 0) return composeKey(key as readonly (Key | undefined)[])
  if (key === undefined || key === null || Array.isArray(key))
    throw new SluiceError('INVALID_KEY', `key: expected a key, or a list of its parts, got ${shown(key)}`)
  normalizeKey(key as Key, 'key')
  return key as Key
}

export function noSingleKey(): SluiceError {
  return new SluiceError(
    'NO_SINGLE_KEY',
    'key: a stack and a limiter with rules have several keys. Use `key` of one limiter in the stack, or pass an input to `reset`, `block` ' +
      'and the other methods',
  )
}
