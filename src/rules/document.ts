/** A document of rules: limits as data. JSON and YAML files have the same content. */
export interface RulesDocument {
  /** Where an editor finds the schema of this document. It has no effect. */
  readonly $schema?: string
  /** All policies. Their order has no effect on what is allowed. */
  readonly policies: readonly PolicyRule[]
}

/** Which requests are limited, by which key, and how often. All policies that match a request apply, all or nothing. */
export interface PolicyRule {
  /** The identity of the policy's state: unique, 1 to 128 characters of printable ASCII. */
  readonly name: string
  /** Every part that is given must match. Default: every request matches. */
  readonly match?: MatchRule
  /**
   * Who is counted: `ip`, `everyone`, `method`, `path`, `header:NAME` or `attribute:NAME`. A list makes one key out of several.
   */
  readonly key?: string | readonly string[]
  /** How often is allowed. Required, unless `allow` is true. */
  readonly limits?: readonly LimitRule[]
  /** Other limits for single keys. */
  readonly overrides?: readonly OverrideRule[]
  /** True: a request that matches passes every policy uncounted. The policy has no key and no limits then. */
  readonly allow?: boolean
  /** True: the limits are evaluated and reported, but never deny a request. Default false. */
  readonly shadow?: boolean
  /** What a request costs: a whole number from 0, or the name of an attribute with the cost. Default: the limiter's cost. */
  readonly cost?: number | string
  /** What happens while the store cannot answer. Default: what the store's guard does. */
  readonly onOutage?: OnOutage
  /** The end of the policy, by the store's clock, such as `2026-12-01T00:00:00Z`. */
  readonly until?: string
}

/** What happens to requests while the store does not answer: see the option `onOutage` of `guard`. */
export type OnOutage = 'local' | 'open' | 'closed'

/** The conditions of a policy. All that are given must hold. */
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
export interface LimitRule {
  /** Default `gcra`. */
  readonly algorithm?: string
  /** Units per window. */
  readonly quota: number
  /** Milliseconds, or a text such as `1m`. */
  readonly window: number | string
  /** Identifies the state of the limit. Default: the policy's name, as above. */
  readonly name?: string
  /** Charges denied requests, too. Default false. */
  readonly strict?: boolean
  /** Locks a key out after a denial: milliseconds, a text such as `15m`, or a block that grows. Default: no lock-out. */
  readonly block?: number | string | BlockRule
  /** Evaluates and reports, but never denies a request. Default false. */
  readonly shadow?: boolean
  /** The algorithm's own options: `burst`, `capacity`, … */
  readonly [option: string]: unknown
}

/** Lock-outs that begin after several denials, or grow with each. Durations are milliseconds, or texts such as `1m`. */
export interface BlockRule {
  /** Denials before each lock-out. Default 1. */
  readonly after?: number
  /** The first lock-out. */
  readonly for: number | string
  /** How many times longer each further lock-out is, from 1 to 1000. Default 1. */
  readonly factor?: number
  /** The longest lock-out. Default: a day, or `for` with factor 1. */
  readonly upTo?: number | string
}

/** Other limits for single keys. */
export interface OverrideRule {
  /** A key, or a list of its parts where the policy's key is a list. */
  readonly key: KeyText | readonly KeyText[]
  /**
   * Each replaces the limit of the policy with the same name or, without a name, at the same place in the list. What it does not
   * give is taken from that limit. Usage under it is kept.
   */
  readonly limits: readonly OverrideLimitRule[]
  /** The end of the override, by the store's clock. */
  readonly until?: string
}

/** A key, or a part of one, as a document writes it. */
export type KeyText = string | number

/** The part of a limit that an override changes. */
export interface OverrideLimitRule extends Partial<LimitRule> {
  readonly [option: string]: unknown
}

/** A mistake in a document. */
export interface RulesProblem {
  /** Where: `policies[2].limits[0].window`. Empty for the document itself. */
  readonly path: string
  /** What was expected and what was given. */
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
  /** Given by the source, or else a count of the documents in this process. */
  readonly version: number
  /** The policies of the document. */
  readonly policies: readonly PolicyRule[]
  /** When it came into force, in epoch milliseconds of this process. */
  readonly loadedAt: number
}
