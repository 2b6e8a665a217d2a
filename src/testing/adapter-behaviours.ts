import { abortCases } from './adapter/abort-cases.ts'
import { allowCases } from './adapter/allow-cases.ts'
import { bodyCases } from './adapter/body-cases.ts'
import { delayCases, endCases } from './adapter/connection-cases.ts'
import { decisionCases, denialCases } from './adapter/denial-cases.ts'
import { faultCases, optionCases } from './adapter/fault-cases.ts'
import { type AdapterHarness, createWorld, type Lack } from './adapter/world.ts'
import { earlyHeaderCases, headerCases } from './adapter/header-cases.ts'
import { addressCases, keyerCases, proxyCases, skipCases } from './adapter/keyer-cases.ts'
import { checkCases, limitCases } from './adapter/limit-cases.ts'
import { outageCases } from './adapter/outage-cases.ts'
import { preflightCases } from './adapter/preflight-cases.ts'
import { resetCases } from './adapter/reset-cases.ts'
import { rulesCases } from './adapter/rules-cases.ts'
import { settlementCases } from './adapter/settlement-cases.ts'
import { type Behaviour, behavioursOf } from './behaviour.ts'

/**
 * The behaviours of every adapter, over real sockets on 127.0.0.1: headers, denials, keys, errors, delays and refunds. For any test
 * runner. Run them one at a time: some of them listen to the warnings of the process.
 *
 * @example
 * import { adapterBehaviours } from 'sluice/testing'
 * for (const { name, run } of adapterBehaviours(harness)) test(name, run)
 */
export function adapterBehaviours(harness: AdapterHarness): readonly Behaviour[] {
  const can = (lack: Lack): boolean => harness.lacks?.includes(lack) !== true
  const subjects = {
    'the headers': { ...headerCases, ...(can('early-headers') && earlyHeaderCases) },
    'a denial': { ...denialCases, ...bodyCases },
    'the limits': limitCases,
    checks: checkCases,
    'the address': { ...addressCases, ...(can('proxy-trust') && proxyCases) },
    'the keyers': keyerCases,
    skip: skipCases,
    allow: allowCases,
    'CORS preflights': preflightCases,
    ...(can('rules') && { rules: rulesCases }),
    'the decision': decisionCases,
    'an error': faultCases,
    'an outage of the store': outageCases,
    'the options': optionCases,
    'a delay': delayCases,
    'a refund or settlement': { ...settlementCases, ...endCases, ...abortCases },
    'a reset': resetCases,
  }
  return behavioursOf(subjects, () => createWorld(harness))
}
