import { fixedWindow, gcra, slidingWindowLog } from '../../limits/factories.ts'
import { equal, like } from '../behaviour.ts'
import { type Cases, verdicts } from './world.ts'

const three = fixedWindow({ name: 'three', quota: 3, window: '1s' })

export const adjustCases: Cases = {
  'refunds a charge, once': async ({ on }) => {
    const limiter = on(three)
    const first = await limiter.consume('a', { cost: 2 })
    await limiter.consume('a')
    await limiter.refund(first)
    await limiter.refund(first)
    like(await limiter.peek('a', { cost: 0 }), { limits: [{ remaining: 2 }] })
  },
  'charges the actual cost, also past the limit': async ({ on, clock }) => {
    const limiter = on(three)
    await limiter.settle(await limiter.consume('a', { cost: 3 }), 1)
    like(await limiter.peek('a', { cost: 0 }), { limits: [{ remaining: 2 }] })
    await limiter.settle(await limiter.consume('a'), 5)
    equal(await verdicts(limiter, 'a', 1), [false])
    clock.advance((await limiter.peek('a')).resetAfter)
    equal(await verdicts(limiter, 'a', 1), [true])
  },
  'charges a penalty past the limit, also to a new key': async ({ on, clock }) => {
    const limiter = on(three)
    await limiter.penalize('a', 2)
    like(await limiter.peek('a', { cost: 0 }), { limits: [{ remaining: 1 }] })
    await limiter.penalize('a', () => 4)
    equal(await verdicts(limiter, 'a', 1), [false])
    clock.advance((await limiter.peek('a')).resetAfter)
    equal(await verdicts(limiter, 'a', 4), [true, true, true, false])
  },
  'refunds nothing to a window that has ended': async ({ on, clock }) => {
    const limiter = on(three)
    const old = await limiter.consume('a', { cost: 2 })
    clock.advance(1000)
    await limiter.consume('a', { cost: 3 })
    await limiter.refund(old)
    equal(await verdicts(limiter, 'a', 1), [false])
  },
  'refunds nothing of a charge that a reset has deleted': async ({ on, clock }) => {
    for (const limit of [
      three,
      gcra({ name: 'rate', quota: 3, window: '1h' }),
      slidingWindowLog({ quota: 3, window: '1h' }),
    ]) {
      const limiter = on(limit, { name: limit.algorithm })
      const [first, second] = [await limiter.consume('a'), await limiter.consume('a')]
      clock.advance(1)
      await limiter.reset('a')
      clock.advance(1)
      equal(await verdicts(limiter, 'a', 3), [true, true, true])
      await limiter.refund(first)
      await limiter.settle(second, 0)
      equal(await verdicts(limiter, 'a', 1), [false])
    }
  },
  'refunds a charge that was made after a reset': async ({ on, clock }) => {
    const limiter = on(three)
    await limiter.consume('a')
    await limiter.reset('a')
    clock.advance(1)
    await limiter.refund(await limiter.consume('a', { cost: 3 }))
    like(await limiter.peek('a', { cost: 0 }), { limits: [{ remaining: 3 }] })
  },
}

const short =
  String.raw`* ? [a] % %s %00 {a} a}b{c {} : a:b ' " "a" \ $ 0 -1 1e3 A a undefined null NaN __proto__ constructor toString`.split(
    ' ',
  )
const odd = [' ', '\0', '\n', '\r\n', 'a ', 'ü', 'é', 'e\u0301', '😀', '\ud800', '\udc00', '\ufeff']
/** Strings that stores are known to confuse. */
const hostile: readonly string[] = [...short, ...odd, 'k'.repeat(5000), `${'k'.repeat(4999)}l`]

export const keyCases: Cases = {
  'are kept apart, whatever they contain': async ({ on }) => {
    const limiter = on(fixedWindow({ name: 'one', quota: 1, window: '1s' }))
    for (const key of hostile)
      equal(await verdicts(limiter, key, 2), [true, false], `key ${JSON.stringify(key.slice(0, 20))}`)
    for (const key of hostile)
      equal(await verdicts(limiter, key, 1), [false], `key ${JSON.stringify(key.slice(0, 20))}, again`)
  },
  'of two limiters or limits are kept apart, whatever the names contain': async ({ on }) => {
    const named = (name: string) => fixedWindow({ name, quota: 1, window: '1s' })
    const limiters = ['a', 'a:b', 'a:', '{a}', '%', '%3a'].map((name) => on([named('x'), named('x:y')], { name }))
    for (const limiter of limiters) {
      for (const key of ['c', 'b:c', ':c', '{a}', '3a']) equal(await verdicts(limiter, key, 2), [true, false], key)
    }
  },
  'of limiters with the same name and `shared` are counted together': async ({ on }) => {
    const limits = fixedWindow({ name: 'one', quota: 1, window: '1s' })
    const [first, second] = [on(limits, { shared: true }), on(limits, { shared: true })]
    equal([await verdicts(first, 'a', 1), await verdicts(second, 'a', 1)], [[true], [false]])
  },
  'are reset one by one': async ({ on }) => {
    const limiter = on([three, fixedWindow({ name: 'one', quota: 1, window: '1h' })])
    await limiter.consume('a')
    await limiter.consume('b')
    await limiter.reset('a')
    await limiter.reset('never seen')
    equal([await verdicts(limiter, 'a', 1), await verdicts(limiter, 'b', 1)], [[true], [false]])
  },
  'keep their usage when their limit changes': async ({ on }) => {
    const versions = [10, 4, 20].map((quota) => fixedWindow({ name: 'changing', quota, window: '1s' }))
    let version = 0
    const limiter = on(() => versions[version])
    await limiter.consume('a', { cost: 3 })
    version = 1
    like(await limiter.consume('a'), { allowed: true, remaining: 0 })
    equal(await verdicts(limiter, 'a', 1), [false])
    version = 2
    like(await limiter.consume('a'), { allowed: true, remaining: 15 })
  },
}
