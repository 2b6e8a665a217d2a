import { algorithms, fieldsOf } from './catalog.ts'
import type { LimitForm } from './forms.ts'
import { MOST_REQUESTS, type Traffic, validSpan } from './traffic.ts'

/** The most limits of one limiter in the playground. */
export const MOST_LIMITS = 5

/** The longest text of an option. */
export const LONGEST_OPTION = 64

const LONGEST_LINK = 100_000

/** Everything that the user chooses. */
export interface Scenario {
  readonly forms: readonly LimitForm[]
  readonly traffic: Traffic
}

/** Writes a scenario for the part of a URL after `#`. */
export function toHash({ forms, traffic }: Scenario): string {
  const { times, span } = traffic
  const steps = times.map((time, i) => (time - (times[i - 1] ?? 0)).toString(36))
  const limits = JSON.stringify(forms.map(({ algorithm, values }) => ({ algorithm, values })))
  return `#${new URLSearchParams({ limits, span: String(span), times: steps.join('.') })}`
}

/** Reads what `toHash` wrote. Returns undefined for any other text, which can come from any source. */
export function fromHash(hash: string): Scenario | undefined {
  if (hash.length > LONGEST_LINK) return undefined
  const parameters = new URLSearchParams(hash.replace(/^#/, ''))
  const forms = formsFrom(parameters.get('limits') ?? '')
  const traffic = trafficFrom(parameters.get('span') ?? '', parameters.get('times') ?? '')
  return forms && traffic && { forms, traffic }
}

function formsFrom(json: string): LimitForm[] | undefined {
  try {
    const forms: unknown = JSON.parse(json)
    if (!Array.isArray(forms) || forms.length === 0 || forms.length > MOST_LIMITS) return undefined
    return forms.every(isForm) ? forms : undefined
  } catch {
    return undefined
  }
}

function isForm(given: unknown): given is LimitForm {
  if (!isRecord(given) || !isRecord(given['values'])) return false
  const { algorithm, values } = given
  if (typeof algorithm !== 'string' || !Object.hasOwn(algorithms, algorithm)) return false
  const names = new Set(fieldsOf(algorithm).map(({ name }) => name))
  return Object.entries(values).every(
    ([name, text]) => names.has(name) && typeof text === 'string' && text.length <= LONGEST_OPTION,
  )
}

function isRecord(given: unknown): given is Record<string, unknown> {
  return typeof given === 'object' && given !== null
}

function trafficFrom(span: string, steps: string): Traffic | undefined {
  const words = steps === '' ? [] : steps.split('.')
  const isValid = words.length <= MOST_REQUESTS && words.every((word) => /^[0-9a-z]{1,8}$/.test(word))
  if (!isValid || !/^\d{1,12}$/.test(span) || validSpan(Number(span)) !== Number(span)) return undefined
  let time = 0
  const times = words.map((word) => (time += Number.parseInt(word, 36)))
  return time < Number(span) ? { times, span: Number(span) } : undefined
}
