// What requests may have used in each interval and each window.

import type { Use } from './place.ts'

export function inMilliseconds(list: readonly Pick<Use, 'time' | 'net'>[]): { time: number; units: number }[] {
  return list.map(({ time, net }) => ({ time: time / 1000, units: net }))
}

export function within(uses: readonly Use[], most: (micros: number) => number): void {
  for (const [i, { time }] of uses.entries()) {
    let sum = 0
    for (let j = i; j < uses.length; j++) {
      sum += uses[j]!.net
      const length = uses[j]!.time - time
      if (sum > most(length)) throw new Error(`${sum} used in ${length} microseconds, and at most ${most(length)}`)
    }
  }
}

export function perWindow(uses: readonly Use[], quota: number): void {
  const sums = new Map<number, number>()
  for (const { until, net } of uses) sums.set(until, (sums.get(until) ?? 0) + net)
  for (const sum of sums.values()) if (sum > quota) throw new Error(`${sum} used in a window of ${quota}`)
}
