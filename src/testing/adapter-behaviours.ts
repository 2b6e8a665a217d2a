import { abortCases, delayCases, endCases, uploadCases } from './adapter/connection-cases.ts'
import { allowCases, limitCases, rulesCases } from './adapter/limit-cases.ts'
import { bodyCases, decisionCases, denialCases } from './adapter/denial-cases.ts'
import { faultCases, optionCases, outageCases } from './adapter/fault-cases.ts'
import type { AdapterHarness, Lack } from './adapter/harness.ts'
import { createWorld } from './adapter/world.ts'
import { earlyHeaderCases, headerCases } from './adapter/header-cases.ts'
import { addressCases, keyerCases, preflightCases, proxyCases, skipCases } from './adapter/keyer-cases.ts'
import { resetCases, settlementCases } from './adapter/settlement-cases.ts'
import { type Behaviour, behavioursOf } from './behaviour.ts'

/**
 * Returns the behaviours that every adapter must have: headers, denials, keys, errors, delays and refunds. They use real sockets on
 * 127.0.0.1, and work with any test runner. Run them one at a time: some of them listen to the warnings of the process.
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
    ...(can('unread-bodies') && { 'the body of a denied request': uploadCases }),
    'a refund or settlement': { ...settlementCases, ...endCases, ...abortCases },
    'a reset': resetCases,
  }
  return behavioursOf(subjects, () => createWorld(harness))
}
