// What all adapters share. The suite of adapters has what depends on a framework. Hono has what is written to a response.
import { describe, test } from 'vitest'
import { createWorld } from '../../src/testing/adapter/world.ts'
import { behavioursOf } from '../../src/testing/behaviour.ts'
import { onlyTwoFrameworks } from '../adapters/frameworks.ts'
import { denialCases } from './behaviours/denials.ts'
import { optionCases, outageCases } from './behaviours/faults.ts'
import { headerCases } from './behaviours/headers.ts'
import { allowCases, checkCases, limitCases } from './behaviours/limits.ts'
import { preflightCases } from './behaviours/preflights.ts'
import { rulesCases } from './behaviours/rules.ts'
import { resetCases, settlementCases } from './behaviours/settlements.ts'

const subjects = {
  'the headers': headerCases,
  'a denial': denialCases,
  'the limits': limitCases,
  checks: checkCases,
  allow: allowCases,
  'CORS preflights': preflightCases,
  rules: rulesCases,
  'an outage of the store': outageCases,
  'the options': optionCases,
  'a refund or settlement': settlementCases,
  'a reset': resetCases,
}

const written = { 'the headers': headerCases, 'a denial': denialCases, 'the limits': limitCases }

describe.each(onlyTwoFrameworks)('$name', (framework) => {
  const cases = framework.name === 'Express 5' ? subjects : written
  for (const { name, run } of behavioursOf(cases, () => createWorld(framework))) test(name, run)
})
