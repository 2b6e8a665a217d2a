import { describe, expect, it } from 'vitest'
import { createLimiter, type Decision, memoryStore } from '../../src/index.ts'
import { createRules, type PolicyRule, type RulesDocument, type RulesVersion } from '../../src/rules/index.ts'
import type { RulesInput } from '../../src/limiter/rule-source.ts'
import { virtualClock } from '../../src/testing.ts'
import { heapUsed } from '../support/heap.ts'

const clock = virtualClock(Date.UTC(2026, 0, 1))

function document(quota: number, more: Partial<PolicyRule> = {}): RulesDocument {
  const limits = [{ algorithm: 'fixedWindow', quota, window: '1h' }]
  return { policies: [{ name: 'api', key: 'attribute:tenant', limits, ...more }] }
}

const ann = { attributes: { tenant: 'ann' } }

describe('rules', () => {
  it('have a version, policies and a time, all frozen', () => {
    const { current } = createRules(document(10))
    expect(current).toEqual({
      version: 1,
      policies: document(10).policies,
      loadedAt: expect.closeTo(Date.now(), -3) as number,
    })
    for (const part of [current, current.policies, current.policies[0], current.policies[0]!.limits])
      expect(Object.isFrozen(part)).toBe(true)
  })

  it('emit one change for each real change, with both versions', () => {
    const rules = createRules(document(10))
    const changes: [RulesVersion, RulesVersion][] = []
    rules.on('change', ({ before, after }) => changes.push([before, after]))
    const first = rules.current
    expect(rules.replace(document(10))).toBe(false)
    expect(rules.current).toBe(first)
    rules.replace(document(11))
    rules.replace(document(12), { version: 7 })
    expect(() => rules.replace(document(9), { version: '8' as never })).toThrow(/^version: expected a whole number/)
    expect(() => rules.replace(document(9), { versoin: 8 } as never)).toThrow(/^replace has no option "versoin"/)
    rules.replace(document(13))
    expect(changes.map(([before, after]) => `${before.version} → ${after.version}`)).toEqual([
      '1 → 2',
      '2 → 7',
      '7 → 8',
    ])
    expect(changes.at(-1)![1]).toBe(rules.current)
  })

  it('decide a request by the version that was current when it began, also while attributes are awaited', async () => {
    const pending: (() => void)[] = []
    const attributes = (): Promise<Record<string, string>> =>
      new Promise((resolve) => pending.push(() => resolve({ tenant: 'ann', plan: 'free' })))
    const rules = createRules(document(10, { match: { attributes: { plan: 'free' } } }), { attributes })
    const limiter = createLimiter({ rules, store: memoryStore({ clock }) })
    const before = limiter.consume({})
    rules.replace({ policies: [] })
    expect(limiter.consume({})).toMatchObject({ limits: [] })
    pending[0]!()
    expect((await before).limits.map(({ limit }) => limit.quota)).toEqual([10])
  })

  it('ask for attributes once a request, and not at all if the document names none', () => {
    let asked = 0
    const attributes = (): Record<string, string> => {
      asked++
      return { tenant: 'ann', plan: 'free' }
    }
    const rules = createRules(document(10, { match: { attributes: { plan: 'free' } }, cost: 1 }), { attributes })
    const limiter = createLimiter({ rules, store: memoryStore({ clock }) })
    void limiter.consume({})
    expect(asked).toBe(1)
    rules.replace(document(10, { key: 'ip' }))
    void limiter.consume({})
    expect(asked).toBe(1)
  })

  it('use the address and the subnet of their options', () => {
    const rules = createRules(document(10, { key: 'ip' }), {
      address: (input: RulesInput & { peer?: string }) => input.peer,
      ipv6Subnet: 64,
    })
    const limiter = createLimiter({ rules, store: memoryStore({ clock }) })
    const decision = limiter.consume({ peer: '2001:db8:1:2:3::4' }) as Decision
    expect(decision.limits[0]!.key).toBe('2001:db8:1:2::/64')
  })

  it('keep the memory flat over ten thousand replacements', () => {
    const rules = createRules(document(10))
    const limiter = createLimiter({ rules, store: memoryStore({ clock }) })
    const replace = (count: number): number => {
      for (let i = 0; i < count; i++) {
        rules.replace(document(10 + (i % 50)))
        void limiter.consume(ann)
      }
      return heapUsed()
    }
    const before = replace(2000)
    expect(replace(8000) - before).toBeLessThan(4_000_000)
  })
})
