import { delayCases, endCases } from './adapter/connection-cases.ts'
import { decisionCases, denialCases } from './adapter/denial-cases.ts'
import { faultCases, optionCases } from './adapter/fault-cases.ts'
import { earlyFieldCases, fieldCases } from './adapter/field-cases.ts'
import type { AdapterHarness, Lack } from './adapter/harness.ts'
import { addressCases, keyerCases, proxyCases, skipCases } from './adapter/keyer-cases.ts'
import { limitCases } from './adapter/limit-cases.ts'
import { outcomeCases } from './adapter/outcome-cases.ts'
import { createWorld } from './adapter/world.ts'
import { type Behaviour, behavioursOf } from './behaviour.ts'

/**
 * What every adapter does, whatever its framework, over real sockets on 127.0.0.1: fields, denials, keys, faults, delays and
 * outcomes. For any test runner; run one at a time, for some listen to the warnings of the process.
 *
 * @example
 * import { adapterBehaviours } from 'sluice/testing'
 * for (const { name, run } of adapterBehaviours(harness)) test(name, run)
 */
export function adapterBehaviours(harness: AdapterHarness): readonly Behaviour[] {
  const can = (lack: Lack): boolean => harness.lacks?.includes(lack) !== true
  const subjects = {
    'the fields': { ...fieldCases, ...(can('early-fields') && earlyFieldCases) },
    'a denial': denialCases,
    'who and which limits': limitCases,
    'the address': { ...addressCases, ...(can('proxy-trust') && proxyCases) },
    'other keyers': keyerCases,
    skip: skipCases,
    'the decision': decisionCases,
    'a fault': faultCases,
    options: optionCases,
    'a delay': delayCases,
    'the outcome': { ...outcomeCases, ...endCases },
  }
  return behavioursOf(subjects, () => createWorld(harness))
}
