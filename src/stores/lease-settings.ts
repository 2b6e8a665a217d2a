import type { Duration } from '../engine/limit.ts'
import { knownOptions, milliseconds, refuse, wholeNumber } from '../util/validate.ts'
import type { LeaseSettings } from './store.ts'

// The options of leases. They are in their own file, so that a limiter can check them without the code of leases.

/** How much is leased, and for how long. */
export interface LeaseOptions {
  /**
   * How long a lease lasts after its request was sent, at most an hour. All bounds grow with it: see the guide. 0 leases nothing.
   * Default `'250ms'`.
   */
  readonly for?: Duration
  /** The largest part of the remaining quota that this process leases, above 0 and at most 1. Default 0.1. */
  readonly share?: number
  /** How many decisions about a key must come within `for` before a lease is asked for: from 1. Default 4. */
  readonly from?: number
}

/** The names of the options. */
export const LEASE_OPTIONS: readonly string[] = ['for', 'share', 'from']
/** An hour in milliseconds. Timers of platforms have a maximum of 24 days. */
const LONGEST = 3_600_000

export function atMostAnHour(option: string, given: unknown): number {
  const ms = milliseconds(option, given)
  return ms <= LONGEST ? ms : refuse(option, 'at most an hour', given)
}

/** The settings of a policy that is never leased. */
export const NOT_LEASED: LeaseSettings = { span: 0, share: 1, from: 1 }

/** Checks the option `lease`. Returns undefined for false. Throws `INVALID_OPTION` or `UNKNOWN_OPTION`. */
export function leaseSettings(option: string, given: boolean | LeaseOptions): LeaseSettings | undefined {
  if (given === false) return undefined
  if (given !== true && (typeof given !== 'object' || given === null))
    refuse(option, "true, false, or options such as { for: '250ms' }", given)
  const options = knownOptions(option, given === true ? {} : given, LEASE_OPTIONS)
  const { for: time = 250, share = 0.1, from = 4 } = options
  const ms = time === 0 ? 0 : atMostAnHour(`${option}.for`, time)
  if (!(typeof share === 'number' && share > 0 && share <= 1))
    refuse(`${option}.share`, 'a number above 0 and at most 1', share)
  return { span: Math.round(ms * 1000), share, from: wholeNumber(`${option}.from`, from) }
}
