/** A number of a state, with its name; times as such. */
export interface NamedCell {
  readonly name: string
  readonly value: number | string
}

type Unit = 'number' | 'time' | 'grain'
type Names = readonly (readonly [name: string, unit: Unit])[]

const linear: Names = [
  ['owed', 'number'],
  ['last', 'time'],
]
const interval: Names = [
  ['used', 'number'],
  ['start', 'time'],
]
const renewal: Names = [['new again', 'time']]
const log: Names = [
  ['sum', 'number'],
  ['newest', 'grain'],
]

/** What the numbers in a state are called, as `docs/redis.md` does. */
const NAMES: Readonly<Record<string, Names>> = {
  gcra: linear,
  tokenBucket: linear,
  leakyBucket: linear,
  spacing: linear,
  tokenBucketPartFull: [...linear, ...renewal],
  tokenBucketInterval: interval,
  tokenBucketIntervalPartFull: [...interval, ...renewal],
  fixedWindow: [
    ['start', 'time'],
    ['used', 'number'],
  ],
  slidingWindowCounter: [
    ['window', 'number'],
    ['current', 'number'],
    ['previous', 'number'],
  ],
  slidingWindowLog: log,
  slidingWindowBuckets: log,
  quotaLinear: [
    ['mode', 'number'],
    ['tokens', 'number'],
    ['time', 'time'],
  ],
  exponential: [
    ['rate', 'number'],
    ['last', 'time'],
  ],
}

/** Names the cells of an algorithm's state; one that is not known gets numbers for names. */
export function namedCells(
  algorithm: string,
  cells: readonly number[],
  parameters: Readonly<Record<string, number>>,
): NamedCell[] {
  return cells.map((cell, i) => {
    const [name, unit] = NAMES[algorithm]?.[i] ?? [`cell ${i + 1}`, 'number']
    const ticks = unit === 'grain' ? cell * parameters['grain']! : cell
    return { name, value: unit === 'number' ? cell : timeText(ticks / parameters['perMs']!) }
  })
}

/** An epoch millisecond for people; a time that is none, as its number. */
export function timeText(ms: number): string {
  return Math.abs(ms) <= 8.64e15 ? new Date(ms).toISOString() : String(ms)
}
