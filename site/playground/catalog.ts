/** An option of a limit, as the form shows it. */
export interface Field {
  readonly name: string
  /** How its text becomes a value: `'10'` a number, `'10s'` a duration, `'true'` a choice. */
  readonly kind: 'number' | 'duration' | 'choice' | 'text'
  /** The default, as shown while the field is empty. Required fields have none. */
  readonly fallback?: string
  readonly choices?: readonly string[]
}

const quota: Field = { name: 'quota', kind: 'number' }
const window: Field = { name: 'window', kind: 'duration' }
const capacity: Field = { name: 'capacity', kind: 'number', fallback: 'quota' }

function flag(name: string, fallback: 'true' | 'false'): Field {
  return { name, kind: 'choice', fallback, choices: ['true', 'false'] }
}

/** The options of a lock-out that grows. They are shown while `block` is set, which is then the first lock-out. */
const growth: readonly Field[] = [
  { name: 'block.after', kind: 'number', fallback: '1' },
  { name: 'block.factor', kind: 'number', fallback: '1' },
  { name: 'block.upTo', kind: 'duration', fallback: 'for, or 1d' },
]

/** Options of every limit. */
export const commonFields: readonly Field[] = [
  { name: 'name', kind: 'text', fallback: 'quota and window' },
  flag('strict', 'false'),
  { name: 'block', kind: 'duration', fallback: 'none' },
  ...growth,
  flag('shadow', 'false'),
]

/** The required options and the own options of every algorithm. */
export const algorithms: Readonly<Record<string, readonly Field[]>> = {
  gcra: [quota, window, { name: 'burst', kind: 'number', fallback: 'quota' }],
  tokenBucket: [
    quota,
    window,
    capacity,
    { name: 'refill', kind: 'choice', fallback: 'greedy', choices: ['greedy', 'interval'] },
    { name: 'initial', kind: 'number', fallback: 'capacity' },
  ],
  leakyBucket: [quota, window, capacity, flag('shape', 'true')],
  spacing: [{ name: 'gap', kind: 'duration' }],
  fixedWindow: [
    quota,
    window,
    { name: 'anchor', kind: 'choice', fallback: 'first', choices: ['first', 'clock', 'calendar'] },
    { name: 'offset', kind: 'duration', fallback: '0' },
    { name: 'timeZone', kind: 'text', fallback: 'UTC' },
  ],
  slidingWindowLog: [quota, window],
  slidingWindowCounter: [quota, window],
  slidingWindowBuckets: [quota, window, { name: 'buckets', kind: 'number', fallback: '10' }],
  quotaLinear: [quota, window],
  exponential: [quota, window],
}

/** Returns whether a field is shown with these values. */
export function isShown({ name }: Field, values: Readonly<Record<string, string>>): boolean {
  return !name.startsWith('block.') || (values['block'] ?? '') !== ''
}

/** Returns the fields of an algorithm. */
export function fieldsOf(algorithm: string): readonly Field[] {
  return [...algorithms[algorithm]!, ...commonFields]
}
