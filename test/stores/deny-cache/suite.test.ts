import { describe, test } from 'vitest'
import { denyCache, memoryStore } from '../../../src/index.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { storeBehaviours } from '../../../src/testing.ts'
import { laterStore } from '../../support/later.ts'
import { redisForAll } from '../../support/redis-tests.ts'

describe('denyCache around a store in this process', () => {
  const behaviours = storeBehaviours((clock) => denyCache(laterStore(memoryStore({ clock }))))
  for (const { name, run } of behaviours) test(name, run)
})

describe('denyCache around redisStore', () => {
  const shared = redisForAll()
  let runs = 0
  const behaviours = storeBehaviours(
    (clock) => denyCache(redisStore(shared.client, { clock, prefix: `deny${runs++}:` })),
    { runs: 60 },
  )
  for (const { name, run } of behaviours) test(name, run)
})
