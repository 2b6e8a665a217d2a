import { fixedWindow, gcra } from '../../limits/factories.ts'
import { stack } from '../../limiter/limiter.ts'
import type { Charge } from '../../stores/store.ts'
import { equal, like } from '../behaviour.ts'
import { type Cases, verdicts } from './world.ts'

const three = fixedWindow({ name: 'three', quota: 3, window: '1s' })
const one = fixedWindow({ name: 'one', quota: 1, window: '1s' })

export const takeCases: Cases = {
  'admits a quota, and again at retry, to the microsecond': async ({ on, clock }) => {
    const limiter = on(gcra({ quota: 3, window: 1000, name: 'edge' }))
    equal(await verdicts(limiter, 'a', 4), [true, true, true, false])
    const { retryAfter } = await limiter.consume('a')
    clock.advance(retryAfter - 0.001)
    equal((await limiter.consume('a')).allowed, false, 'allowed, a microsecond before')
    clock.advance(0.001)
    equal((await limiter.consume('a')).allowed, true, 'allowed, at its time')
  },
  'treats a key as new after resetAfter': async ({ on, clock }) => {
    const limiter = on(three)
    const { resetAfter } = await limiter.consume('a', { cost: 3 })
    clock.advance(resetAfter)
    like(await limiter.peek('a'), { remaining: 3 - 1 })
  },
  'returns a promise only if it is not `sync`': async ({ store, on }) => {
    const answer = on(three).consume('a')
    equal(answer instanceof Promise, !store.sync, 'a promise')
    await answer
  },
  'writes no verdict of a decision that is given up, and refunds it': async ({ store, on }) => {
    const limiter = on(three)
    const { limits } = await limiter.peek('a')
    const charge = (limits[0] as Charge).copy()
    const before = structuredClone(charge)
    await new Promise<void>((resolve) => {
      const giveUp = store.run(
        { kind: 'consume', charges: [charge], fresh: true },
        { answered: () => resolve(), failed: () => resolve() },
      )
      equal(giveUp === undefined, store.sync, 'nothing to give up')
      giveUp?.()
    })
    if (!store.sync) equal(structuredClone(charge), before)
    like(await limiter.peek('a', { cost: 0 }), { limits: [{ remaining: store.sync ? 2 : 3 }] })
  },
  'peeks without charging': async ({ on }) => {
    const limiter = on(one)
    for (let i = 0; i < 3; i++) like(await limiter.peek('a'), { allowed: true, remaining: 0 })
    equal(await verdicts(limiter, 'a', 2), [true, false])
    like(await limiter.peek('a'), { allowed: false, retryAfter: 1000 })
  },
  'charges every limit or none': async ({ on }) => {
    const limiter = on([three, one])
    const verdict = async (): Promise<unknown> =>
      (await limiter.consume('a')).limits.map((each) => [each.allowed, each.remaining])
    equal(await verdict(), [
      [true, 2],
      [true, 0],
    ])
    equal(await verdict(), [
      [true, 2],
      [false, 0],
    ])
    equal(await verdict(), [
      [true, 2],
      [false, 0],
    ])
  },
  'charges every limiter of a stack or none': async ({ on }) => {
    const user = on(three, { name: 'user' })
    const all = on(one, { name: 'all', keyer: () => 'everyone' })
    const both = stack(user, all)
    equal(await verdicts(both, 'a', 3), [true, false, false])
    like(await user.peek('a'), { remaining: 1 })
  },
  'charges a cost as a whole, and reports Infinity for more than fits': async ({ on }) => {
    const limiter = on(three)
    equal(await verdicts(limiter, 'a', 2, 2), [true, false])
    like(await limiter.consume('a', { cost: 4 }), { allowed: false, retryAfter: Infinity })
    like(await limiter.consume('a', { cost: 1 }), { allowed: true, remaining: 0 })
    like(await limiter.consume('a', { cost: 0 }), { allowed: true })
  },
  'decides concurrent requests one after another': async ({ on }) => {
    const limiter = on(three)
    const answers = await Promise.all(Array.from({ length: 20 }, async () => limiter.consume('a')))
    equal(answers.filter(({ allowed }) => allowed).length, 3, 'admitted')
  },
  'charges denied requests of a strict limit, and not of a shadow limit': async ({ on, clock }) => {
    const strict = on(gcra({ quota: 1, window: 1000, strict: true, name: 'strict' }), { name: 'strict' })
    equal(await verdicts(strict, 'a', 2), [true, false])
    clock.advance(600)
    equal(await verdicts(strict, 'a', 1), [false])
    clock.advance(600)
    equal(await verdicts(strict, 'a', 1), [false])
    const shadow = on([three, fixedWindow({ name: 'shade', quota: 1, window: '1s', shadow: true })], { name: 'shadow' })
    equal(await verdicts(shadow, 'a', 4), [true, true, true, false])
  },
  'locks a key out for `block`, and further requests do not prolong it': async ({ on, clock }) => {
    const limiter = on(fixedWindow({ name: 'locked', quota: 1, window: '100ms', block: '5s' }))
    equal(await verdicts(limiter, 'a', 2), [true, false])
    clock.advance(4000)
    like(await limiter.consume('a'), { allowed: false, retryAfter: 1000 })
    clock.advance(1000)
    equal(await verdicts(limiter, 'a', 1), [true])
  },
  'locks a key out after several denials, and longer each time, until it has had none for a while': async ({
    on,
    clock,
  }) => {
    const block = { after: 2, for: '1s', factor: 3, upTo: '5s' } as const
    const limiter = on(fixedWindow({ name: 'growing', quota: 1, window: '500ms', block }))
    equal(await verdicts(limiter, 'a', 2), [true, false])
    like(await limiter.peek('a'), { allowed: false, retryAfter: 1000 })
    // From here on the second denial of each two begins a lock-out.
    for (const lasting of [1000, 3000, 5000, 5000]) {
      like(await limiter.consume('a'), { allowed: false, retryAfter: lasting, remaining: 0 })
      like(await limiter.consume('a'), { allowed: false, retryAfter: lasting })
      clock.advance(lasting)
      equal(await verdicts(limiter, 'a', 2), [true, false])
    }
    clock.advance(6000)
    equal(await verdicts(limiter, 'a', 2), [true, false])
    like(await limiter.consume('a'), { allowed: false, retryAfter: 1000 })
    await limiter.reset('a')
    equal(await verdicts(limiter, 'a', 2), [true, false])
    like(await limiter.consume('a'), { allowed: false, retryAfter: 1000 })
  },
  'never admits more when the clock steps back': async ({ on, clock }) => {
    const limiter = on(gcra({ quota: 3, window: 1000, name: 'back' }))
    equal(await verdicts(limiter, 'a', 3), [true, true, true])
    clock.advance(-500)
    equal(await verdicts(limiter, 'a', 1), [false])
  },
}
