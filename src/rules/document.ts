import type { BlockOptions, CommonOptions } from '../engine/limit.ts'
import type { LeaseOptions } from '../stores/lease-settings.ts'
import type { Degraded } from '../stores/store.ts'
import { SluiceError } from '../util/errors.ts'

/** A document of rules: limits as data. JSON and YAML files have the same content. */
export interface RulesDocument {
  /** The address of the schema of this document, for editors. It has no effect. */
  readonly $schema?: string
  /** All policies. Their order has no effect on what is allowed. */
  readonly policies: readonly PolicyRule[]
  /**
   * The limits of requests that no policy matches, or only policies in shadow; or `'allow'`. Default: these requests are not limited, and there is a
   * warning.
   */
  readonly otherwise?: OtherwiseRule | 'allow'
}

/** The limits of requests that no policy matches. They count under the name `otherwise`. */
export interface OtherwiseRule extends Pick<PolicyRule, 'overrides' | 'shadow' | 'cost' | 'onOutage' | 'lease'> {
  /** The key that is counted, as in a policy. */
  readonly key: NonNullable<PolicyRule['key']>
  /** The limits. */
  readonly limits: readonly LimitRule[]
}

/** A policy: which requests are limited, by which key, and how often. All policies that match a request apply, all or nothing. */
export interface PolicyRule {
  /** The identity of the policy's state: a unique name of 1 to 128 characters of printable ASCII. */
  readonly name: string
  /** The conditions. Every given part must match. Default: every request matches. */
  readonly match?: MatchRule
  /**
   * The key that is counted: `ip`, `everyone`, `method`, `path`, `header:NAME` or `attribute:NAME`. A list makes one key out of several.
   */
  readonly key?: string | readonly string[]
  /** The limits. Required, unless `allow` is true. */
  readonly limits?: readonly LimitRule[]
  /** Other limits for single keys. */
  readonly overrides?: readonly OverrideRule[]
  /** True: a matching request passes all policies and is not counted. The policy has no key and no limits then. */
  readonly allow?: boolean
  /** True: the limits are evaluated and reported, but never deny a request. Default false. */
  readonly shadow?: boolean
  /** The cost of a request: a whole number from 0, or the name of an attribute with the cost. Default 1. */
  readonly cost?: number | string
  /** How requests are decided while the store does not answer. Default: the `onOutage` of the store's guard. */
  readonly onOutage?: Degraded
  /**
   * Charges a part of its limits ahead and spends it in the process: true, or options of `lease`. False: never. Default: the settings of the limiter or its
   * store.
   */
  readonly lease?: boolean | LeaseRule
  /** The time at which the policy ends, by the store's clock, such as `2026-12-01T00:00:00Z`. */
  readonly until?: string
}

/** How a policy is leased: see `lease`. */
export interface LeaseRule extends Omit<LeaseOptions, 'for'> {
  /** How long a lease lasts: milliseconds or a text such as `500ms`, at most `1h`. Default `250ms`. */
  readonly for?: number | string
}

/** The conditions of a policy. All given conditions must hold. */
export interface MatchRule {
  /** A method or a list. GET matches HEAD, too. */
  readonly method?: string | readonly string[]
  /** `/login`, `/users/:id`, or `/api/*` for `/api` and everything below it. One, or a list. */
  readonly path?: string | readonly string[]
  /** From the name of a header to its value, to a list of values, or to `true` if any value matches. */
  readonly header?: Readonly<Record<string, string | readonly string[] | true>>
  /** Addresses and networks, such as `192.0.2.0/24`. One, or a list. */
  readonly ip?: string | readonly string[]
  /** From the name of an attribute to its value, or to a list of values: `{ plan: ['free', 'trial'] }`. */
  readonly attributes?: Readonly<Record<string, AttributeValue | readonly AttributeValue[]>>
}

/** The value of an attribute in a document. It is compared as text. */
export type AttributeValue = string | number | boolean

/**
 * A limit in a document: the options of `limit()`, with `gcra` as the default algorithm. The default name is the policy's name
 * for the first limit, and `NAME-2`, `NAME-3` for the others, so that usage survives a change of the numbers.
 */
export interface LimitRule extends Omit<CommonOptions, 'name' | 'block'> {
  /** Default `gcra`. */
  readonly algorithm?: string
  /** Units per window. */
  readonly quota: number
  /** Milliseconds, or a text such as `1m`. Required, except for `concurrent`, which has `expiresAfter` instead. */
  readonly window?: number | string
  /** Identifies the state of the limit. Default: the policy's name, as above. */
  readonly name?: string
  /** Locks a key out after a denial: milliseconds, a text such as `15m`, or a block that grows. Default: no lock-out. */
  readonly block?: number | string | BlockRule
  /** The algorithm's own options: `burst`, `capacity`, … */
  readonly [option: string]: unknown
}

/** Lock-outs that begin after several denials, or grow with each. Durations are milliseconds, or texts such as `1m`. */
export interface BlockRule extends Omit<BlockOptions, 'for' | 'upTo'> {
  /** The first lock-out. */
  readonly for: number | string
  /** The longest lock-out. Default: a day, or `for` with factor 1. */
  readonly upTo?: number | string
}

/** Other limits for single keys. */
export interface OverrideRule {
  /** A key, or a list of its parts if the policy's key is a list. */
  readonly key: KeyText | readonly KeyText[]
  /**
   * Each one replaces the limit of the policy with the same name or, without a name, at the same place in the list. Missing options are taken from that limit.
   * Usage under that limit is kept.
   */
  readonly limits: readonly OverrideLimitRule[]
  /** The time at which the override ends, by the store's clock. */
  readonly until?: string
}

/** A key, or a part of one, in a document. */
export type KeyText = string | number

/** The part of a limit that an override changes. */
export interface OverrideLimitRule extends Partial<LimitRule> {
  readonly [option: string]: unknown
}

/** A mistake in a document. */
export interface RulesProblem {
  /** The place, such as `policies[2].limits[0].window`. Empty for the document itself. */
  readonly path: string
  /** The expected and the given value. */
  readonly message: string
  /** The name of the file, for rules from a file. */
  readonly file?: string
  /** The line in the text, from 1, if it is known. */
  readonly line?: number
  /** The column in the line, from 1, for a mistake in the syntax of YAML. */
  readonly column?: number
}

/** A compiled document. Frozen. */
export interface RulesVersion {
  /** The version from the source, or a count of the documents in this process. */
  readonly version: number
  /** The policies of the document. */
  readonly policies: readonly PolicyRule[]
  /** The `otherwise` of the document, if it has one. */
  readonly otherwise?: OtherwiseRule | 'allow'
  /** When it was applied, in epoch milliseconds of this process. */
  readonly loadedAt: number
}

/** The deepest nesting of a text. Documents of rules need less than twenty levels. */
export const DEEPEST = 64
/** The most mistakes that are reported. */
const MOST = 100
/** The most characters of a message. */
const LONGEST = 500

/** Thrown when there are enough mistakes, so that a check of a large document ends. */
class EnoughProblems extends Error {}

/** Receives a mistake: its path, a message with the expected and the given value, and its place in the text, if it is known. */
export type Report = (path: string, message: string, place?: Pick<RulesProblem, 'line' | 'column'>) => void

/** Returns the mistakes that a check reports. Ends the check after a hundred mistakes. In this case, one more entry says that there are more. */
export function problemsOf(check: (report: Report) => void): readonly RulesProblem[] {
  const problems: RulesProblem[] = []
  try {
    check((path, message, place) => {
      if (problems.length >= MOST) throw new EnoughProblems()
      const text = message.length > LONGEST ? `${message.slice(0, LONGEST)}…` : message
      problems.push({ path, message: text, ...place })
    })
  } catch (error) {
    if (!(error instanceof EnoughProblems)) throw error
    problems.push({ path: '', message: `and more: the first ${MOST} mistakes are listed` })
  }
  return problems
}

/** The content of a text: a value that is not checked yet, or the problems of the text. */
export type ParsedText =
  | {
      readonly value: unknown
      /** Adds lines to mistakes in the value. */
      readonly located: (problems: readonly RulesProblem[]) => readonly RulesProblem[]
    }
  | { readonly problems: readonly RulesProblem[] }

/** Returns the problem of a text as a whole, as a list. */
export function refusal(message: string): readonly RulesProblem[] {
  return problemsOf((report) => report('', message))
}

/** A part of a path: the name of a value in an object, or the place of one in a list. */
export type PathPart = string | number

/** Splits `policies[2].match["a b"]` into its names and numbers. */
export function partsOf(path: string): PathPart[] {
  const parts = path.matchAll(/\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]|([^.[\]]+)/g)
  return Array.from(parts, ([, index, quoted, name]) => {
    if (index !== undefined) return Number(index)
    return quoted === undefined ? name! : (JSON.parse(quoted) as string)
  })
}

export function inFile(file: string, problems: readonly RulesProblem[]): readonly RulesProblem[] {
  return Array.from(problems, (each) => ({ ...each, file }))
}

/** Returns a mistake as one line: its place, such as `rules.yaml:12: policies[0].key`, and its message. */
export function problemText({ path, message, file, line, column }: RulesProblem): string {
  const position = column === undefined ? `${line}` : `${line}:${column}`
  const at = line === undefined ? (file ?? '') : file === undefined ? `line ${position}` : `${file}:${position}`
  return [at, path, message].filter((each) => each !== '').join(': ')
}

/** Returns the error for a document with mistakes. The mistakes are its `cause`. */
export function invalidRules(problems: readonly RulesProblem[]): SluiceError {
  const count = problems.length > MOST ? `more than ${MOST} mistakes` : `${problems.length} mistakes`
  return new SluiceError(
    'INVALID_RULES',
    `The rules have ${problems.length === 1 ? 'a mistake' : count}:\n${problems.map((each) => `  ${problemText(each)}`).join('\n')}`,
    { cause: problems },
  )
}

/** Returns the mistakes of an error; `undefined` for another error than `INVALID_RULES`. */
export function mistakesIn(error: unknown): readonly RulesProblem[] | undefined {
  if (!(error instanceof SluiceError) || error.code !== 'INVALID_RULES') return undefined
  return error.cause as readonly RulesProblem[]
}
