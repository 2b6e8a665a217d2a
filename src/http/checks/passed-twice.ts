import type { ChargeSource } from '../../limiter/charges.ts'
import { tools } from './tools.ts'

/** The limiters for which a warning was written, by its code. */
const warnedLimiters = { SLUICE_MOUNTED_TWICE: new WeakSet<object>(), SLUICE_SAME_PLACE: new WeakSet<object>() }

const COUNTED_ONCE = 'The request is counted once. Use the middleware in one place only.'
const COUNTED_TWICE =
  'The second pass also has other limits, so the common limits count the request twice. Give all limits to one middleware, or ' +
  'use different limiters for the app and for its routes.'

export function warnMountedTwice(
  limiter: object,
  sources: readonly ChargeSource<never>[],
  isCountedOnce: boolean,
): void {
  warnOnce(
    limiter,
    'SLUICE_MOUNTED_TWICE',
    `A request passed the limiter ${namesOf(sources)} twice, such as on the app and on one of its routes. ` +
      (isCountedOnce ? COUNTED_ONCE : COUNTED_TWICE),
  )
}

/** Warns about two limiters on two stores that may count in the same place. */
export function warnSamePlace(limiter: object, sources: readonly ChargeSource<never>[]): void {
  warnOnce(
    limiter,
    'SLUICE_SAME_PLACE',
    `A request passed two limiters named ${namesOf(sources)}, with the same limit and key, on two stores. If both stores use one server, ` +
      'such as over two connections, the request is charged twice. Give one of them another `name`, or use one store. If they should ' +
      'share their counts, set `shared: true`.',
  )
}

function warnOnce(limiter: object, code: keyof typeof warnedLimiters, message: string): void {
  if (!warnedLimiters[code].has(limiter)) tools.warn(code, message)
  warnedLimiters[code].add(limiter)
}

function namesOf(sources: readonly ChargeSource<never>[]): string {
  return [...new Set(sources.map(({ name }) => `"${name}"`))].join(', ')
}
