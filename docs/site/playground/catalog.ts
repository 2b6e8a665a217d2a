import type { Algorithm, OptionField } from 'sluice/extend'
import { builtIn } from '../../../src/algorithms/index.ts'

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
  flag('capCost', 'false'),
]

/**
 * The required options and the own options of every algorithm. Traffic of the playground has no ends of requests, so an algorithm of slots is
 * not offered.
 */
export const algorithms: Readonly<Record<string, readonly Field[]>> = Object.fromEntries(
  builtIn
    .filter(({ renew }) => renew === undefined)
    .map((each) => [each.name, each.name === 'spacing' ? [{ name: 'gap', kind: 'duration' }] : fieldsIn(each)]),
)

function fieldsIn({ optionFields = {} }: Algorithm): Field[] {
  return [quota, window, ...Object.entries(optionFields).map(([name, field]) => fieldOf(name, field))]
}

function fieldOf(name: string, { kind, fallback, choices = [] }: OptionField): Field {
  if (kind === 'flag') return flag(name, fallback === 'true' ? 'true' : 'false')
  if (kind === 'choice') return { name, kind, fallback, choices }
  return { name, kind: kind === 'count' ? 'number' : kind, fallback }
}

/** Returns whether a field is shown with these values. */
export function isShown({ name }: Field, values: Readonly<Record<string, string>>): boolean {
  return !name.startsWith('block.') || (values['block'] ?? '') !== ''
}

/** Returns the fields of an algorithm. */
export function fieldsOf(algorithm: string): readonly Field[] {
  return [...algorithms[algorithm]!, ...commonFields]
}
