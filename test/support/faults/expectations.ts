import { expect } from 'vitest'
import type { Figures, Options } from './experiment.ts'

/** Milliseconds that a busy machine may add. */
const SLACK = 1000

/** Checks what was counted and what is left behind, whatever the speed of the machine. */
export function verifyCounts({ fault, family }: Options, figures: Figures): void {
  const text = JSON.stringify(figures)
  expect(figures.errors, 'decisions that were rejected').toEqual([])
  expect(figures.rejections, 'unhandled rejections').toBe(0)
  expect(figures.leaks, 'what is left behind').toEqual([])
  expect(figures.admitted, `more than the allowance: ${text}`).toBeLessThanOrEqual(figures.allowance)
  expect(figures.charged, `requests of the outage that Redis has charged: ${text}`).toBe(0)
  expect(figures.kept, `charges that were lost: ${text}`).toBeGreaterThanOrEqual(0)
  // A client that sends a request again may have it charged twice. valkey-glide does not wait for a late answer.
  const most = fault.isLate === true && family.name !== 'valkey-glide' ? 0 : 2 * figures.handed
  expect(figures.kept, `charges that were not given back: ${text}`).toBeLessThanOrEqual(most)
  // A busy machine makes fewer decisions while the outage lasts.
  if (fault.effect === 'outage') expect(figures.degraded, text).toBeGreaterThan(10)
}

/** Checks times, loosely. */
export function verifyTimes({ fault, deadline }: Options, figures: Figures): void {
  const text = JSON.stringify(figures)
  expect(figures.first, text).toBeLessThan(deadline + SLACK)
  if (figures.recovery !== undefined) expect(figures.recovery, text).toBeLessThan(15_000)
  // On a busy machine a few answers may be late.
  if (fault.effect === 'none') expect(figures.degraded, text).toBeLessThan(figures.decisions / 2)
  if (fault.effect === 'outage') expect(figures.later!, text).toBeLessThan(deadline / 2)
}
