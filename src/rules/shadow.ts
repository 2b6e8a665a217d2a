import { countsSlots } from '../engine/limit.ts'
import { combine, type Decision } from '../limiter/decision.ts'
import { perform } from '../stores/store.ts'
import { madeOnce } from '../util/copies.ts'
import { chain, isPromise, type MaybePromise } from '../util/maybe-promise.ts'
import { knownOptions, refuse } from '../util/validate.ts'
import { observer } from '../util/warn.ts'
import { AttributeWatch, RulesCharges, type RulesInForce } from './charges.ts'
import { allPolicies, type CompiledRules } from './dimensions.ts'

/** Options of `rules.shadow`. */
export interface ShadowOptions<Input> {
  /**
   * Called for each request that the document would have denied, with both decisions. Its result is not used, and a promise is not awaited. An error becomes
   * the warning `SLUICE_OUTCOME`.
   */
  readonly onDenied?: (denied: ShadowDenial<Input>) => void
}

/** A request that a document in shadow would have denied. */
export interface ShadowDenial<Input> {
  /** The input of the decision, such as the request. */
  readonly input: Input
  /** The decision of the document in shadow. */
  readonly decision: Decision
  /** The decision that took effect. */
  readonly enforced: Decision
}

/** The results of a document in shadow. */
export interface ShadowReport {
  /** When it began, in epoch milliseconds. */
  readonly since: number
  /** The requests that both documents decided. */
  readonly requests: number
  /** Requests that it would have denied. */
  readonly denied: number
  /** Requests that were admitted and that it would have denied. */
  readonly newlyDenied: number
  /** Requests that were denied and that it would have admitted. */
  readonly newlyAllowed: number
  /** Requests that it could not decide, such as during an outage of the store. */
  readonly failed: number
  /** By policy and limit: how many requests each would have denied. Limits by `concurrent` are left out. */
  readonly limits: readonly ShadowLimit[]
}

/** The results of a limit of a document in shadow. */
export interface ShadowLimit {
  /** The name of its policy. */
  readonly policy: string
  /** The name of the limit. */
  readonly limit: string
  /** Requests that it would have denied. */
  readonly denied: number
}

/** The prefix of the name of a limiter for a document in shadow. */
const SHADOW = 'shadow:'

/**
 * A document that is evaluated in addition to the current one. It counts in the same store under other names.
 * @example const trial = rules.shadow(tightened)
 * console.log(trial.report.newlyDenied)
 * trial.close()
 */
export class ShadowRules<Input> {
  readonly #compiled: CompiledRules
  readonly #onDenied: ((denied: ShadowDenial<Input>) => void) | undefined
  readonly #rules: RulesInForce<Input>
  readonly #forget: (shadow: ShadowRules<Input>) => void
  readonly #charges = new WeakMap<RulesCharges<Input>, RulesCharges<Input>>()
  readonly #denials = new Map<string, number>()
  readonly #counts = { since: Date.now(), requests: 0, denied: 0, newlyDenied: 0, newlyAllowed: 0, failed: 0 }

  constructor(
    compiled: CompiledRules,
    options: ShadowOptions<Input>,
    rules: RulesInForce<Input>,
    forget: (shadow: ShadowRules<Input>) => void,
  ) {
    options = knownOptions('shadow', options, ['onDenied'])
    const { onDenied } = options
    if (onDenied !== undefined && typeof onDenied !== 'function') refuse('onDenied', 'a function', onDenied)
    this.#compiled = compiled
    this.#onDenied = onDenied && observer(onDenied, 'onDenied of a document in shadow failed. Nothing changes.')
    const { attributes, address } = rules
    this.#rules = { compiled: () => compiled, watch: new AttributeWatch(), attributes, address }
    this.#forget = forget
  }

  /** The results of the document since the call of `rules.shadow`. */
  get report(): ShadowReport {
    return {
      ...this.#counts,
      limits: allPolicies(this.#compiled).flatMap(({ rule, limits }) =>
        limits
          .filter((limit) => !countsSlots(limit))
          .map(({ name }) => ({
            policy: rule.name,
            limit: name,
            denied: this.#denials.get(idOf(rule.name, name)) ?? 0,
          })),
      ),
    }
  }

  /** Ends the evaluation. The report stays. */
  close(): void {
    this.#forget(this)
  }

  /** Decides a request that the current document has decided. Never throws. The request does not wait for it. */
  observe(input: Input, cost: number | undefined, enforced: Decision, charges: RulesCharges<Input>): void {
    const failed = (): void => void this.#counts.failed++
    try {
      const source = this.#chargesBeside(charges)
      const decision = this.#decide(input, cost, source)
      if (isPromise(decision)) decision.then((known) => this.#count(source, input, known, enforced)).catch(failed)
      else this.#count(source, input, decision, enforced)
    } catch {
      failed()
    }
  }

  #decide(input: Input, cost: number | undefined, source: RulesCharges<Input>): MaybePromise<Decision> {
    return chain(source.charges(input, cost), (all) => {
      // Nobody would give the slots of a request back.
      const charges = all.filter(({ limit }) => !countsSlots(limit))
      if (charges.length === 0) return combine(charges, undefined)
      const degraded = perform(source.store, { kind: 'consume', charges, fresh: false })
      return chain(degraded, (known) => combine(charges, known))
    })
  }

  #chargesBeside(charges: RulesCharges<Input>): RulesCharges<Input> {
    return madeOnce(this.#charges, charges, () => {
      const place = { ...charges.place, name: SHADOW + charges.name, home: {}, onDecision: undefined }
      return new RulesCharges(this.#rules, place)
    })
  }

  #count(source: RulesCharges<Input>, input: Input, decision: Decision, enforced: Decision): void {
    const counts = this.#counts
    if (decision.degraded !== undefined) return void counts.failed++
    counts.requests++
    if (decision.allowed && !enforced.allowed) counts.newlyAllowed++
    if (decision.allowed) return
    counts.denied++
    if (enforced.allowed) counts.newlyDenied++
    for (const status of decision.limits) {
      if (status.allowed || status.limit.shadow === true) continue
      const id = idOf(source.policyOf(status), status.limit.name)
      this.#denials.set(id, (this.#denials.get(id) ?? 0) + 1)
    }
    this.#onDenied?.({ input, decision, enforced })
  }
}

function idOf(policy: string, limit: string): string {
  return `${policy}\n${limit}`
}
