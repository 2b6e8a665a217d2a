import { afterEach, describe, test } from 'vitest'
import { behaviours, createWorld, type World } from './behaviours.ts'
import { frameworks } from './frameworks.ts'

describe.each(frameworks)('$name', (framework) => {
  let world: World | undefined
  afterEach(async () => {
    await world?.close()
    world = undefined
  })

  describe.each(Object.entries(behaviours))('%s', (_subject, group) => {
    test.each(Object.entries(group))('%s', async (_name, run) => {
      world = createWorld(framework)
      await run(world)
    })
  })
})
