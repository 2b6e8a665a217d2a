import type { Limit } from 'sluice'
import { fieldsOf, isShown } from './catalog.ts'
import { codeOf, type LimitForm, limitOf, sameQuota } from './forms.ts'
import { simulate, summarize, type Summary, type Verdict } from './simulate.ts'
import { messageOf } from './text.ts'

/** One line of the comparison. */
export interface Result {
  readonly title: string
  /** Undefined if the limit has a wrong option. */
  readonly verdicts: readonly Verdict[] | undefined
  readonly summary: Summary | undefined
  readonly wrong: string | undefined
}

/** A limit, or what is wrong with its options. */
export interface Made {
  readonly limit?: Limit
  readonly wrong?: string
}

/** Makes the limit of a form. */
export function madeOf(form: LimitForm): Made {
  try {
    return { limit: limitOf(form) }
  } catch (error) {
    return { wrong: messageOf(error) }
  }
}

/** What is wrong with the options of one limit, and with which field. */
export interface Mistake {
  readonly message: string
  /** Undefined if the mistake is not about one field of the form. */
  readonly field: string | undefined
}

/** The limits of all forms. `limits` is undefined if one has a mistake, or if they cannot be used together. */
export interface Checked {
  readonly limits: readonly Limit[] | undefined
  readonly errors: readonly (Mistake | undefined)[]
  readonly together: string | undefined
}

/** Makes the limits of all forms, and one limiter of them. */
export function checkedLimits(forms: readonly LimitForm[]): Checked {
  const made = forms.map(madeOf)
  const errors = made.map(({ wrong }, i) => (wrong === undefined ? undefined : mistakeIn(forms[i]!, wrong)))
  const limits = made.flatMap(({ limit }) => limit ?? [])
  if (limits.length < forms.length) return { limits: undefined, errors, together: undefined }
  try {
    simulate(limits, [0])
    return { limits, errors, together: undefined }
  } catch (error) {
    return { limits: undefined, errors, together: messageOf(error) }
  }
}

/** Messages about an option start with its name. */
function mistakeIn({ algorithm, values }: LimitForm, message: string): Mistake {
  const [, option] = /^([\w.]+): /.exec(message) ?? []
  const name = option === 'block.for' ? 'block' : option
  const field = fieldsOf(algorithm).find((each) => each.name === name && isShown(each, values))
  return { message, field: field?.name }
}

/** Decides traffic under all limits together, then under each of them, then under the other algorithms with the first one's quota. */
export function compare(
  forms: readonly LimitForm[],
  limits: readonly Limit[],
  times: readonly number[],
  everyAlgorithm: boolean,
): Result[] {
  const first = limits[0]!
  const title = forms.length === 1 ? codeOf(forms[0]!) : 'All limits together'
  const alone =
    forms.length === 1 ? [] : forms.map((form, i) => result(`Only ${codeOf(form)}`, [limits[i]!], times, first))
  const others = everyAlgorithm ? sameQuota(first).filter(({ algorithm }) => algorithm !== first.algorithm) : []
  return [
    result(title, limits, times, first),
    ...alone,
    ...others.map((form) => {
      const { limit, wrong } = madeOf(form)
      return limit === undefined ? failed(form.algorithm, wrong!) : result(form.algorithm, [limit], times, first)
    }),
  ]
}

function result(title: string, limits: readonly Limit[], times: readonly number[], { window }: Limit): Result {
  try {
    const verdicts = simulate(limits, times)
    return { title, verdicts, summary: summarize(verdicts, window), wrong: undefined }
  } catch (error) {
    return failed(title, messageOf(error))
  }
}

function failed(title: string, wrong: string): Result {
  return { title, verdicts: undefined, summary: undefined, wrong }
}
