/** A unit of time: its milliseconds, its symbol as in `'10s'`, and its name. */
interface Unit {
  readonly ms: number
  readonly symbol: string
  readonly word: string
}

/** The largest unit first. */
const UNITS: readonly Unit[] = [
  { ms: 604_800_000, symbol: 'w', word: 'week' },
  { ms: 86_400_000, symbol: 'd', word: 'day' },
  { ms: 3_600_000, symbol: 'h', word: 'hour' },
  { ms: 60_000, symbol: 'm', word: 'minute' },
  { ms: 1000, symbol: 's', word: 'second' },
  { ms: 1, symbol: 'ms', word: 'millisecond' },
]

/** The largest safe integer has 16 digits. Another process may write any text, and a limit is kept as it is written. */
const WRITTEN = /^(\d{1,16})(ms|s|m|h|d|w)$/

/** Returns the milliseconds of a string such as `'10s'`, or `undefined` for any other string. */
export function parseDuration(text: string): number | undefined {
  const [, count, symbol] = WRITTEN.exec(text) ?? []
  const unit = UNITS.find((each) => each.symbol === symbol)
  return unit && Number(count) * unit.ms
}

/**
 * Writes whole milliseconds in the largest unit that represents them exactly.
 * @example shortDuration(90_000) // '90s'
 */
export function shortDuration(ms: number): string {
  const unit = UNITS.find((each) => ms % each.ms === 0) ?? UNITS.at(-1)!
  return `${ms / unit.ms}${unit.symbol}`
}

const WORDS: Readonly<Record<string, string>> = {
  ...Object.fromEntries(UNITS.map(({ symbol, word }) => [symbol, word])),
  mo: 'month',
  y: 'year',
}

/**
 * Writes a short duration in words. Milliseconds from 1000 on are written as seconds.
 * @example durationText('2m') // '2 minutes'
 */
export function durationText(short: string): string {
  const [, digits, symbol] = /^(\d+)(\D+)$/.exec(short) ?? []
  const word = symbol && WORDS[symbol]
  if (!word) return short
  return symbol === 'ms' && Number(digits) > 1000
    ? counted(Number(digits) / 1000, 'second')
    : counted(Number(digits), word)
}

/** How many of each unit make one of the next unit. */
const STEPS = [
  { word: 'second', size: 60 },
  { word: 'minute', size: 60 },
  { word: 'hour', size: 24 },
]

/**
 * Writes whole seconds in one unit, rounded up: below two minutes in seconds, below two hours in minutes, below two days in hours, and
 * otherwise in days.
 * @example roundedDuration(899) // '15 minutes'
 */
export function roundedDuration(seconds: number): string {
  let count = seconds
  for (const { word, size } of STEPS) {
    if (count < 2 * size && count !== size) return counted(count, word)
    count = Math.ceil(count / size)
  }
  return counted(count, 'day')
}

/**
 * Writes a number with commas.
 * @example numberText(1000) // '1,000'
 */
export function numberText(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ',')
}

function counted(count: number, word: string): string {
  return `${count > 1000 ? numberText(count) : count} ${word}${count === 1 ? '' : 's'}`
}

/**
 * Writes a duration in its two largest units, rounded down. Below a second it is written in milliseconds, rounded up.
 * @example roughDuration(3_725_000) // '1 h 2 min'
 */
export function roughDuration(ms: number): string {
  if (ms < 1000) return ms === 0 ? 'now' : `${Math.ceil(ms)} ms`
  const at = UNITS.findIndex((unit) => ms >= unit.ms)
  const [unit, next] = [UNITS[at]!, UNITS[at + 1]!]
  const whole = `${Math.floor(ms / unit.ms)} ${columnSymbol(unit)}`
  const rest = next.ms === 1 ? 0 : Math.floor((ms % unit.ms) / next.ms)
  return rest === 0 ? whole : `${whole} ${rest} ${columnSymbol(next)}`
}

/** Returns the symbol of a unit in a table, where `m` could be read as metres. */
function columnSymbol({ symbol }: Unit): string {
  return symbol === 'm' ? 'min' : symbol
}
