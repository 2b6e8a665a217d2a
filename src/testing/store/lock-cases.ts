import { fixedWindow } from '../../limits/factories.ts'
import { stack } from '../../limiter/limiter.ts'
import { equal, like } from '../behaviour.ts'
import { type Cases, verdicts } from './world.ts'

const many = fixedWindow({ name: 'many', quota: 100, window: '1s' })
const more = fixedWindow({ name: 'more', quota: 1000, window: '1h' })

export const lockCases: Cases = {
  'denies a key until its end, to the microsecond, and no other key': async ({ on, clock }) => {
    const limiter = on([many, more])
    await limiter.consume('used')
    for (const key of ['new', 'used']) await limiter.block(key, '5s')
    clock.advance(1000)
    for (const key of ['new', 'used'])
      like(await limiter.consume(key), { allowed: false, retryAfter: 4000, remaining: 0 })
    equal(await verdicts(limiter, 'other', 1), [true])
    clock.advance(3999.999)
    like(await limiter.consume('new'), { allowed: false, retryAfter: 0.001 })
    clock.advance(0.001)
    for (const key of ['new', 'used']) equal(await verdicts(limiter, key, 1), [true])
  },
  'is replaced by the next one, and ended by 0 and by reset': async ({ on }) => {
    const limiter = on(many)
    await limiter.block('a', '1h')
    await limiter.block('a', '1s')
    like(await limiter.peek('a'), { allowed: false, retryAfter: 1000 })
    await limiter.block('a', '1h')
    like(await limiter.peek('a'), { allowed: false, retryAfter: 3_600_000 })
    await limiter.block('a', 0)
    like(await limiter.consume('a'), { allowed: true, remaining: 99 })
    await limiter.block('a', '1h')
    await limiter.reset('a')
    like(await limiter.consume('a'), { allowed: true, remaining: 99 })
  },
  'is only made longer by a pause': async ({ on, clock }) => {
    const limiter = on(many)
    await limiter.pause('a', '2s')
    for (const shorter of ['1s', 0] as const) {
      await limiter.pause('a', shorter)
      like(await limiter.peek('a'), { allowed: false, retryAfter: 2000 })
    }
    await limiter.pause('b', 0)
    like(await limiter.peek('b'), { allowed: true, remaining: 99 })
    await limiter.pause('a', '3s')
    clock.advance(2000)
    like(await limiter.peek('a'), { allowed: false, retryAfter: 1000 })
    clock.advance(1000)
    equal(await verdicts(limiter, 'a', 1), [true])
  },
  'does not change the usage of the key': async ({ on, clock }) => {
    const limiter = on(more)
    await limiter.consume('a', { cost: 300 })
    await limiter.block('a', '1s')
    clock.advance(1000)
    like(await limiter.consume('a'), { allowed: true, remaining: 699 })
  },
  'of a stack locks the key of each part': async ({ on }) => {
    const user = on(many, { name: 'user' })
    const all = on(more, { name: 'all', keyer: () => 'everyone' })
    await stack(user, all).block('a', '1s')
    equal([await verdicts(user, 'a', 1), await verdicts(all, 'b', 1)], [[false], [false]])
    await user.block('a', 0)
    equal([await verdicts(user, 'a', 1), await verdicts(stack(user, all), 'a', 1)], [[true], [false]])
  },
}
