import { refuse } from '../util/validate.ts'
import type { Limiter } from './contract.ts'
import { type DefaultLimiter, isOwn } from './default-limiter.ts'

// Limiters that a dashboard and a service ask about single keys.

/**
 * Returns a limiter whose inputs have one key each. Throws `INVALID_OPTION` for any other value of the option `limiters`.
 * @param forRules the part of the error that says what to do for rules, which have several keys. Absent: the caller has handled rules before
 */
export function keyedLimiter(given: Limiter<never>, forRules?: string): DefaultLimiter<never> {
  const isSingle = given !== undefined && given !== null && isOwn(given) && given.sources.length === 1
  if (isSingle && given.sources[0]!.withKey !== undefined) return given as DefaultLimiter<never>
  return refuse(
    'limiters',
    `limiters made by createLimiter, each with one key: the parts of a stack${forRules === undefined ? '' : `; for rules, ${forRules}`}`,
    given,
  )
}

export function nameOf({ sources }: DefaultLimiter<never>): string {
  return sources[0]!.name
}
