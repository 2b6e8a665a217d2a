import { describe, test } from 'vitest'
import { adapterBehaviours } from '../../src/testing.ts'
import { everyFramework } from './frameworks.ts'

describe.each(everyFramework)('$name', (framework) => {
  for (const { name, run } of adapterBehaviours(framework)) test(name, run)
})
