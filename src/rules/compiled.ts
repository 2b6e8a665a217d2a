import type { Limit } from '../limits/limit.ts'
import type { PolicyRule } from './document.ts'
import type { Facts } from './facts.ts'
import type { CompiledKey } from './keys.ts'
import type { LimitReader } from './limits.ts'
import type { CompiledOverride } from './overrides.ts'

/** A value that policies name, such as one path. All policies that name it share the cell. */
export class Cell {
  /** How many policies name it. */
  uses = 0
  /** The policies that are found by it. */
  readonly policies: CompiledPolicy[] = []
}

/** A part of a request on which policies set conditions: the method, the path, a header. It finds the cells of a request. */
export interface Dimension {
  /** As in a document: `path`, `header.x-device`, `attributes.plan`. */
  readonly part: string
  find(facts: Facts): readonly Cell[]
  /**
   * Returns true if a request has one of these cells whatever a router takes for this part. Default: if `find` finds one of them.
   */
  surelyHas?(facts: Facts, cells: ReadonlySet<Cell>): boolean
  /** Returns the readings of the path that have one of these cells. Only the dimension of paths has it. */
  readings?(facts: Facts, cells: ReadonlySet<Cell>): readonly string[]
  /** Returns what a request has, for explanations. */
  actual(facts: Facts): string | undefined
}

/** One part of a `match`: a request matches if it has one of its cells. */
export interface Condition {
  readonly dimension: Dimension
  readonly cells: ReadonlySet<Cell>
  /** As in the document, for explanations. */
  readonly expected: string
}

/** A policy as requests are matched with it. */
export interface CompiledPolicy {
  readonly rule: PolicyRule
  /** Its place in the document. */
  readonly index: number
  readonly conditions: readonly Condition[]
  /** Absent in a policy with `allow: true`. */
  readonly key: CompiledKey | undefined
  readonly limits: readonly Limit[]
  readonly overrides: ReadonlyMap<string, CompiledOverride>
  /** When it ends, in epoch milliseconds; `Infinity` for never. */
  readonly until: number
}

/** A document as requests are matched with it. It never changes. */
export interface CompiledRules {
  readonly policies: readonly CompiledPolicy[]
  /** Policies that match every request, or are found by nothing else. */
  readonly always: readonly CompiledPolicy[]
  /** What policies are found by. */
  readonly indexed: readonly Dimension[]
  /** The attributes that policies name, each with the name of the first policy that does. */
  readonly attributes: ReadonlyMap<string, string>
  /** True if a policy or an override has an end, so that the time is needed. */
  readonly usesTime: boolean
  readonly limits: LimitReader
}
