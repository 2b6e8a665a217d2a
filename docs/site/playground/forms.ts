// The page chooses algorithms by their names.
import 'sluice/algorithms'
import { type Duration, type Limit, limit, spacing } from 'sluice'
import { algorithms, type Field, fieldsOf, isShown } from './catalog.ts'

/** A limit as the user writes it: the text of each option. An empty text means the default. */
export interface LimitForm {
  readonly algorithm: string
  readonly values: Readonly<Record<string, string>>
}

/** Returns a form with another algorithm. It keeps the options that both have. */
export function withAlgorithm({ algorithm: before, values }: LimitForm, algorithm: string): LimitForm {
  const known = new Set(fieldsOf(algorithm).map(({ name }) => name))
  const kept = Object.fromEntries(Object.entries(values).filter(([name]) => known.has(name)))
  if (before === 'spacing' && algorithm !== 'spacing')
    return { algorithm, values: { quota: '10', window: '10s', ...kept } }
  return { algorithm, values: algorithm === 'spacing' ? { gap: '1s', ...kept } : kept }
}

/** Makes the limit of a form with the engine, which throws `SluiceError` for a wrong option. */
export function limitOf(form: LimitForm): Limit {
  const { gap, ...options } = optionsOf(form)
  if (form.algorithm === 'spacing') return spacing(gap as Duration, options)
  return limit({ algorithm: form.algorithm, ...options })
}

/** Returns the limits with the quota and the window of one limit, under every algorithm. A quota of 0 has no gap. */
export function sameQuota({ quota, window }: Limit): LimitForm[] {
  const names = Object.keys(algorithms).filter((algorithm) => algorithm !== 'spacing' || quota > 0)
  return names.map((algorithm) => {
    if (algorithm === 'spacing') return { algorithm, values: { gap: `${Math.max(1, Math.round(window / quota))}ms` } }
    return { algorithm, values: { quota: String(quota), window: `${window}ms` } }
  })
}

/**
 * Writes a limit as code.
 * @example codeOf({ algorithm: 'gcra', values: { quota: '10', window: '1s' } }) // "gcra({ quota: 10, window: '1s' })"
 */
export function codeOf(form: LimitForm): string {
  const { gap, ...options } = optionsOf(form)
  if (form.algorithm !== 'spacing') return `${form.algorithm}(${literal(options)})`
  return `spacing(${literal(gap!)}${Object.keys(options).length === 0 ? '' : `, ${literal(options)}`})`
}

/** Writes the program that the user copies. */
export function programOf(forms: readonly LimitForm[]): string {
  const names = [...new Set(forms.map(({ algorithm }) => algorithm))].toSorted()
  return [
    `import { ${names.join(', ')} } from 'sluice'`,
    "import { byIP, rateLimit } from 'sluice/express'",
    '',
    'export const limited = rateLimit({',
    '  keyer: byIP,',
    '  limits: [',
    ...forms.map((form) => `    ${codeOf(form)},`),
    '  ],',
    '})',
    '',
  ].join('\n')
}

type Value = string | number | boolean | { readonly [name: string]: Value }

function optionsOf({ algorithm, values }: LimitForm): Record<string, Value> {
  const isRequired = ({ fallback }: Field): boolean => fallback === undefined
  const given = fieldsOf(algorithm).filter(
    (field) => ((values[field.name] ?? '') !== '' || isRequired(field)) && isShown(field, values),
  )
  const options = Object.fromEntries(given.map((field) => [field.name, valueOf(field, values[field.name] ?? '')]))
  const { 'block.after': after, 'block.factor': factor, 'block.upTo': upTo, ...flat } = options
  const growth = Object.entries({ after, factor, upTo }).filter(([, value]) => value !== undefined)
  if (growth.length === 0) return flat
  return { ...flat, block: Object.fromEntries([['for', flat['block']!], ...growth]) as Record<string, Value> }
}

/** A text that is no number stays a text, so that the engine refuses it as the user has written it. */
function valueOf({ kind, choices }: Field, text: string): Value {
  if (kind === 'number') return /^\s*[+-]?\d+(\.\d*)?\s*$/.test(text) ? Number(text) : text
  return kind === 'choice' && choices!.includes('true') ? text === 'true' : text
}

function literal(value: Value): string {
  if (typeof value === 'object') {
    const pairs = Object.entries(value).map(([name, each]) => `${name}: ${literal(each)}`)
    return `{ ${pairs.join(', ')} }`
  }
  return typeof value === 'string' ? `'${value.replaceAll(/['\\]/g, String.raw`\$&`)}'` : String(value)
}
