import { describe, test } from 'vitest'
import { adapterBehaviours } from '../../src/testing.ts'
import { frameworks } from './frameworks.ts'

describe.each(frameworks)('$name', (framework) => {
  for (const { name, run } of adapterBehaviours(framework)) test(name, run)
})
