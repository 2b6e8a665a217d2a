import { type Decision, type Degraded, limit, type Limit, type LimitInput, type LimitStatus } from '../../src/index.ts'
import { combine } from '../../src/limiter/decision.ts'
import type { HeaderOptions } from '../../src/http/headers/options.ts'
import type { HeaderStyles } from '../../src/http/headers/types.ts'
import { headerConfig, headerWriter } from '../../src/http/headers/styles.ts'

/** The time of the worked values, in epoch milliseconds. */
export const NOW = 1_767_225_600_000

/** Returns the status of a limit. With a `retryAfter` it is a denial. */
export function status(of: Limit, said: Partial<LimitStatus> = {}): LimitStatus {
  const allowed = said.allowed ?? !(said.retryAfter! > 0)
  return {
    limit: of,
    limiter: 'default',
    key: 'k',
    cost: 1,
    allowed,
    remaining: 0,
    used: 0,
    retryAfter: 0,
    resetAfter: 0,
    delay: 0,
    ...said,
  }
}

export function decide(limits: readonly LimitStatus[], degraded?: Degraded): Decision {
  return combine(limits, degraded)
}

/** Returns a limit whose units all come back at once. */
export function windowed(name: string, quota: number, window: number, more: Partial<LimitInput> = {}): Limit {
  return limit({ algorithm: 'fixedWindow', name, quota, window, ...more })
}

export function linear(name: string, quota: number, window: number, more: Partial<LimitInput> = {}): Limit {
  return limit({ algorithm: 'gcra', name, quota, window, ...more })
}

/** Returns a limit of how many requests run at the same time. */
export function slots(quota: number, more: Partial<LimitInput> = {}): Limit {
  return limit({ algorithm: 'concurrent', name: 'slots', quota, expiresAfter: '1m', ...more })
}

/** Returns the headers that are written, by name. */
export function written(
  styles: HeaderStyles,
  decision: Decision,
  options?: HeaderOptions,
  now: number = NOW,
): Record<string, string> {
  const headers: Record<string, string> = {}
  headerWriter(headerConfig({ headers: styles, ...options }))(decision, now, (name, value) => {
    if (name in headers) throw new Error(`${name} is written twice`)
    headers[name] = value
  })
  return headers
}

const main = windowed('default', 100, 60_000)
const burst = windowed('burst', 10, 1000)
const hourly = windowed('hourly', 1000, 3_600_000)
const hourlyStanding = status(hourly, { remaining: 650, resetAfter: 1_800_000 })

/** The decisions of the worked values. */
export const A1: Decision = decide([status(main, { remaining: 99, resetAfter: 60_000 })])
export const D1: Decision = decide([status(main, { remaining: 0, retryAfter: 12_200, resetAfter: 12_200 })])
export const A2: Decision = decide([status(burst, { remaining: 9, resetAfter: 1000 }), hourlyStanding])
export const D2: Decision = decide([status(burst, { remaining: 0, retryAfter: 200, resetAfter: 200 }), hourlyStanding])
export const D3: Decision = decide([
  status(burst, { remaining: 7, resetAfter: 700 }),
  status(hourly, { remaining: 0, retryAfter: 1_800_000, resetAfter: 1_800_000 }),
])
/** Both limits violated. */
export const D4: Decision = decide([
  status(burst, { remaining: 0, retryAfter: 200, resetAfter: 200 }),
  status(hourly, { remaining: 0, retryAfter: 1_800_000, resetAfter: 1_800_000 }),
])
