import { expect, test } from 'vitest'
import { createLimiter, memoryStore, perMinute, type Store } from '../../src/index.ts'

test.each([
  ['with a receipt, it can be made again', true, 95],
  ['without a receipt, it is not made twice, since the store may have done it', false, 99],
])('a settlement that fails: %s', async (_, hasReceipt, remaining) => {
  const inner = memoryStore()
  let fails = true
  const store: Store = {
    place: inner.place,
    clock: inner.clock,
    answersAlways: false,
    sync: false,
    close: async () => inner.close(),
    run(operation, reply) {
      if (operation.kind !== 'adjust' || !fails) return inner.run(operation, reply)
      fails = false
      reply.failed(new Error('away'))
      return undefined
    },
  }
  const limiter = createLimiter({ keyer: () => 'k', limits: perMinute(100), store })
  const decision = await limiter.consume(undefined)
  if (hasReceipt) limiter.receipt(decision)
  await limiter.settle(decision, 5)
  await limiter.settle(decision, 5)
  expect((await limiter.peek(undefined, { cost: 0 })).limits[0]!.remaining).toBe(remaining)
})
