import { describe, test } from 'vitest'
import { adapterBehaviours } from '../../src/testing.ts'
import { frameworkOfEachAdapter, isOneOfTwo } from './frameworks.ts'

/**
 * Cases of code that all adapters share, once they return the method, the headers and the address of a request, and the status of
 * its response. Other cases show that they do. Only a framework of Node and one of the web have these.
 */
const SHARED = [
  'the limits can depend on',
  'the limits count each key',
  'skip ',
  'allow limits all other clients',
  'CORS preflights ',
  'rules match headers',
  'the decision does not wait',
  'the decision goes to',
  'an outage of the store is decided',
  'an outage of the store admits',
  'a denial is what a message function',
  'a denial reaches the error handling',
  'a refund or settlement can depend',
  'a refund or settlement causes one warning',
  'a refund or settlement charges',
  'a refund or settlement that is a word',
  'a refund or settlement that reads',
  'a refund or settlement that rejects',
  'a reset ',
]

describe.each(frameworkOfEachAdapter)('$name', (framework) => {
  for (const { name, run } of adapterBehaviours(framework))
    if (isOneOfTwo(framework) || !SHARED.some((each) => name.startsWith(each))) test(name, run)
})
