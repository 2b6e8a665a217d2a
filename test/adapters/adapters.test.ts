import { describe, test } from 'vitest'
import { adapterBehaviours } from '../../src/testing.ts'
import { frameworkOfEachAdapter } from './frameworks.ts'

describe.each(frameworkOfEachAdapter)('$name', (framework) => {
  for (const { name, run } of adapterBehaviours(framework)) test(name, run)
})
