import type { ChargeSource } from '../limiter/charges.ts'
import { decisionObserver } from '../limiter/decision.ts'
import { DefaultLimiter } from '../limiter/default-limiter.ts'
import { lossObserver } from '../limiter/lost-slots.ts'
import { ALL_OPTIONS, type RulesLimiterOptions, validateCommon } from '../limiter/options.ts'
import { receiptSettings } from '../limiter/receipt-settings.ts'
import { countsFromZero, registered } from '../limiter/registration.ts'
import type { InputReader, RulePlace } from '../limiter/rule-source.ts'
import { leaseSettings } from '../stores/lease-settings.ts'
import { memoryStore } from '../stores/memory/index.ts'
import { leasedBy } from '../stores/store.ts'
import { knownOptions, refuse } from '../util/validate.ts'
import { plainReader } from './facts.ts'

/**
 * Makes a limiter whose keys and limits come from rules. Throws as `createLimiter` does.
 * @param chargesOf returns the source of charges
 */
export function limiterOf<Input>(
  options: RulesLimiterOptions<Input>,
  reader: InputReader<Input> = plainReader as InputReader<Input>,
  chargesOf: (place: RulePlace<Input>) => ChargeSource<Input>,
): DefaultLimiter<Input> {
  options = knownOptions('createLimiter', options, ALL_OPTIONS)
  for (const option of ['keyer', 'limits', 'cost'] as const) {
    if (options[option] !== undefined)
      refuse(option, 'nothing together with `rules`, which have their own', options[option])
  }
  validateCommon(options)
  const { name = 'rules', lease = false } = options
  // A policy may ask for leases later.
  const store = leasedBy(options.store ?? memoryStore())
  const common = {
    name,
    store,
    reader,
    startsFromZero: countsFromZero(options.store),
    onDecision: options.onDecision && decisionObserver(options.onDecision),
    onSlotLost: options.onSlotLost && lossObserver(options.onSlotLost),
    lease: leaseSettings('lease', lease),
    receipts: receiptSettings(options),
  }
  return new DefaultLimiter([registered(name, store, options, (home) => chargesOf({ ...common, home }))])
}
