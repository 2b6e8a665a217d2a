import type { LeaseSettings } from '../stores/store.ts'
import type { MaybePromise } from '../util/maybe-promise.ts'
import type { LimiterPlace } from './charges.ts'
import type { OnDecision } from './decision.ts'
import type { OnSlotLost } from './lost-slots.ts'
import type { ReceiptSettings } from './receipt-settings.ts'

/** The limiter that rules make charges for. */
export interface RulePlace<Input> extends LimiterPlace {
  /** How its policies are leased, unless they have their own settings. Default: as the store does. */
  readonly lease?: LeaseSettings | undefined
  /** How its receipts are written and read. */
  readonly receipts: ReceiptSettings
  readonly reader: InputReader<Input>
  /** Called with each decision of the limiter. It never throws. */
  readonly onDecision?: OnDecision<Input> | undefined
  /** Called with slots that are lost. It never throws. */
  readonly onSlotLost?: OnSlotLost | undefined
}

/** How rules read an input. */
export interface InputReader<Input> {
  method(input: Input): string | undefined
  /** Returns a path, with or without a query, or a URL; or several, of which the router matches the first. */
  path(input: Input): string | readonly string[] | undefined
  /** Returns the client's address. */
  address(input: Input): string | undefined
  /** Returns a header by its name in lower case. */
  header(input: Input, name: string): string | undefined
  /** Returns the attributes of an input, unless the rules have their own function. */
  attributes(input: Input): MaybePromise<Readonly<Record<string, unknown>>>
  /** Returns what the functions of the rules receive after the input. */
  rest(input: Input): readonly unknown[]
}

/** An input of a limiter with rules and without HTTP. */
export interface RulesInput {
  /** The method of a request, in capitals, for the condition `method`. */
  readonly method?: string | undefined
  /** The path of a request, for the condition `path`. */
  readonly path?: string | undefined
  /** The client's address. */
  readonly ip?: string | undefined
  /** The headers: from names in any letter case to values. */
  readonly headers?: Readonly<Record<string, string | readonly string[] | undefined>> | undefined
  /** Values for all other conditions and keys, by their names. */
  readonly attributes?: Readonly<Record<string, unknown>> | undefined
}
