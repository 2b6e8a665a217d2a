const UNITS: readonly (readonly [symbol: string, ms: number])[] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
  ['ms', 1],
]

/**
 * Writes a duration with at most three digits, such as on an axis.
 * @example timeText(1500) // '1.5s'
 */
export function timeText(ms: number): string {
  if (ms === Number.POSITIVE_INFINITY) return 'never'
  const [symbol, unit] = UNITS.find(([, unit]) => ms >= unit) ?? ['s', 1000]
  return `${Number((ms / unit).toPrecision(3))}${symbol}`
}

/**
 * Writes a time with all of its units, such as in a table.
 * @example exactText(73_441_500) // '20h 24m 1.5s'
 */
export function exactText(ms: number): string {
  const seconds = Number(((ms % 60_000) / 1000).toFixed(3))
  const whole = [Math.floor(ms / 86_400_000), Math.floor(ms / 3_600_000) % 24, Math.floor(ms / 60_000) % 60]
  const parts = [...whole, seconds].map((count, i) => (count === 0 ? '' : `${count}${'dhms'[i]}`))
  return parts.filter((part) => part !== '').join(' ') || '0s'
}

/** Returns the milliseconds of a text such as `'90s'`, or undefined. */
export function durationOf(text: string): number | undefined {
  const [, number, symbol] = /^\s*(\d{1,9}(?:\.\d{1,3})?)\s*(ms|s|m|h|d)\s*$/.exec(text) ?? []
  const unit = UNITS.find(([name]) => name === symbol)
  return unit && Number(number) * unit[1]
}

/** Returns the message of an error, without the place in the documents that ends it. */
export function messageOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).replace(/ \(sluice\/docs\/\S+\)$/, '')
}
