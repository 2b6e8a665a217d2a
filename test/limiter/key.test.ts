// A limiter for one key, by its text.
import { describe, expect, it } from 'vitest'
import { unlimited } from '../../src/limiter/options.ts'
import {
  createLimiter,
  everyone,
  keyers,
  type Limit,
  memoryStore,
  perMinute,
  perSecond,
  stack,
} from '../../src/index.ts'
import { virtualClock } from '../../src/testing.ts'
import { createRules } from '../../src/rules/index.ts'
import { codeOf } from '../support/code-of.ts'

interface User {
  readonly id: string
  readonly plan?: Limit
}

const five = perMinute(5)
const byId = ({ id }: User): string => id

describe('key', () => {
  it('counts with the requests of the key', async () => {
    const store = memoryStore({ clock: virtualClock() })
    const limiter = createLimiter({ keyer: byId, limits: five, store })
    limiter.consume({ id: 'ann' })
    const ann = limiter.key('ann')
    expect(ann.peek({ cost: 0 }).remaining).toBe(Infinity)
    expect(ann.peek().remaining).toBe(3)
    expect(ann.consume({ cost: 2 }).remaining).toBe(1)
    expect((await ann.wait()).allowed).toBe(true)
    ann.penalize(1)
    expect(limiter.peek({ id: 'ann' }).allowed).toBe(false)
    expect(limiter.peek({ id: 'ben' }).remaining).toBe(4)
    ann.reset()
    ann.block('1m')
    expect(limiter.consume({ id: 'ann' }).retryAfter).toBe(60_000)
    ann.pause('1h')
    expect(limiter.consume({ id: 'ann' }).retryAfter).toBe(3_600_000)
    ann.reset()
    expect(limiter.consume({ id: 'ann' }).remaining).toBe(4)
  })

  it('of a number or a long text is the same as from the keyer', () => {
    const limiter = createLimiter({ keyer: (key: string | number) => key, limits: five })
    for (const key of [7, 'k'.repeat(5000), 'é\0']) {
      limiter.key(key).block('1m')
      expect(limiter.consume(key).allowed).toBe(false)
    }
    expect(limiter.consume('7').allowed).toBe(false)
  })

  it('of a list is that of `keyers`', () => {
    const [get, none] = [(): string => 'GET', (): undefined => undefined]
    const limiter = createLimiter({ keyer: keyers(byId, get, none), limits: five })
    limiter.key(['ann', 'GET', undefined]).block('1m')
    expect(limiter.consume({ id: 'ann' }).allowed).toBe(false)
    expect(limiter.consume({ id: 'annG' }).allowed).toBe(true)
  })

  it('passes an input to limits and costs that are functions', () => {
    const plans = createLimiter({ keyer: byId, limits: ({ plan }: User) => plan ?? five, cost: () => 2 })
    const gold = { id: 'unused', plan: perSecond(100, { name: 'gold' }) }
    expect(plans.key('ann', gold).consume().remaining).toBe(49)
    expect(plans.peek({ ...gold, id: 'ann' }).limits[0]!.remaining).toBe(96)
  })

  it('throws INPUT_NEEDED for a limit that is a function, except in reset', () => {
    const plans = createLimiter({ keyer: byId, limits: [five, ({ plan }: User) => plan ?? unlimited] })
    const ann = plans.key('ann')
    for (const work of [() => ann.consume(), () => ann.peek(), () => ann.block('1m'), () => ann.penalize(1)])
      expect(codeOf(work)).toBe('INPUT_NEEDED')
    plans.consume({ id: 'ann' }, { cost: 5 })
    ann.reset()
    expect(plans.consume({ id: 'ann' }).allowed).toBe(true)
  })

  it('costs 1 without an input, whatever the cost function says', () => {
    const limiter = createLimiter({ keyer: byId, limits: five, cost: () => 5 })
    expect(limiter.key('ann').consume().remaining).toBe(4)
  })

  it('throws NO_SINGLE_KEY for a stack and for rules', async () => {
    const store = memoryStore()
    const user = createLimiter({ name: 'user', keyer: byId, limits: five, store })
    const all = createLimiter({ name: 'all', keyer: everyone, limits: five, store })
    expect(codeOf(() => stack(user, all).key('ann'))).toBe('NO_SINGLE_KEY')
    expect(codeOf(() => stack(user).key('ann'))).toBe('none')
    const rules = createRules({ policies: [{ name: 'all', key: 'ip', limits: [{ quota: 5, window: '1m' }] }] })
    expect(codeOf(() => createLimiter({ rules }).key('192.0.2.1'))).toBe('NO_SINGLE_KEY')
  })

  it.each([[undefined], [null], [[]], [{}], [true], [Number.NaN]])('refuses %j', (key) => {
    const limiter = createLimiter({ keyer: byId, limits: five })
    expect(codeOf(() => limiter.key(key as string))).toBe('INVALID_KEY')
  })
})
