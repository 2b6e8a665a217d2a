// Durable Objects behind a binding, in this process; test/stores/durable-objects.test.ts has those of workerd.
import { describe, expect, it } from 'vitest'
import { createLimiter, gcra, memoryStore, perMinute, stack } from '../../../src/index.ts'
import {
  type DurableObjectNamespaceLike,
  durableObjectStore,
  LimitsObject,
} from '../../../src/stores/cloudflare/index.ts'
import { serveStore } from '../../../src/extend.ts'
import { createRules } from '../../../src/rules/index.ts'
import { codeOf } from '../../support/code-of.ts'

describe('durableObjectStore of a binding', () => {
  const objects = new Map<string, ReturnType<typeof serveStore>>()
  const namespace: DurableObjectNamespaceLike = {
    idFromName: (name) => name,
    get: (id) => ({
      async fetch(_, { body }) {
        const answer = objects.get(String(id)) ?? serveStore(memoryStore())
        objects.set(String(id), answer)
        return Response.json(await answer(JSON.parse(body)))
      },
    }),
  }
  const fresh = (): DurableObjectNamespaceLike => ({ ...namespace })
  const keyer = (input: { user: string; team: string }): string => input.user
  const byTeam = (input: { user: string; team: string }): string => input.team

  it('refuses stacks that span objects when they are created', () => {
    const store = durableObjectStore(fresh(), { objects: 64 })
    const user = createLimiter({ name: 'user', keyer, limits: perMinute(5), store })
    const team = createLimiter({ name: 'team', keyer: byTeam, limits: perMinute(5), store })
    const again = createLimiter({ name: 'again', keyer, limits: perMinute(9), store })
    expect(codeOf(() => stack(user, team))).toBe('STORE_MISMATCH')
    const apart = [keyer, byTeam].map((each) => ({ keyer: each, limits: perMinute(1) }))
    expect(codeOf(() => stack({ store, name: 'x', limiters: apart }))).toBe('STORE_MISMATCH')
    const policy = { name: 'api', key: 'header:x-key', limits: [{ quota: 1, window: '1m' }] }
    const rules = createRules({ policies: [policy] })
    expect(codeOf(() => createLimiter({ rules, store }))).toBe('STORE_MISMATCH')
    expect(codeOf(() => stack(user, again))).toBe('none')
    const one = durableObjectStore(fresh(), { objects: 1 })
    const limiters = [keyer, byTeam].map((each, i) =>
      createLimiter({ name: `l${i}`, keyer: each, limits: perMinute(5), store: one }),
    )
    expect(codeOf(() => stack(...limiters))).toBe('none')
    expect(codeOf(() => createLimiter({ rules, store: one }))).toBe('none')
  })

  it('divides keys among objects by their hash', async () => {
    objects.clear()
    const store = durableObjectStore(fresh(), { objects: 8 })
    const limiter = createLimiter({ keyer: (key: string) => key, limits: gcra({ quota: 1, window: '1h' }), store })
    for (let i = 0; i < 200; i++) expect((await limiter.consume(`key ${i}`)).allowed).toBe(true)
    expect([...objects.keys()].toSorted()).toEqual(['0', '1', '2', '3', '4', '5', '6', '7'])
    expect((await limiter.consume('key 7')).allowed).toBe(false)
  })

  it('notices two limiters with one name on one binding', () => {
    const binding = fresh()
    createLimiter({ keyer, limits: perMinute(5), store: durableObjectStore(binding) })
    const second = (): unknown => createLimiter({ keyer, limits: perMinute(6), store: durableObjectStore(binding) })
    expect(codeOf(second)).toBe('DUPLICATE_LIMITER')
  })

  it.each([
    [undefined, {}, 'INVALID_OPTION'],
    [{}, {}, 'INVALID_OPTION'],
    [namespace, { objects: 0 }, 'INVALID_OPTION'],
    [namespace, { objects: 1.5 }, 'INVALID_OPTION'],
    [namespace, { shards: 2 }, 'UNKNOWN_OPTION'],
    [namespace, { clock: 1 }, 'INVALID_OPTION'],
  ])('refuses %o with %o', (given, options, code) => {
    expect(codeOf(() => durableObjectStore(given as never, options as never))).toBe(code)
  })

  it('has no leases', () => {
    const store = durableObjectStore(fresh())
    expect(codeOf(() => createLimiter({ keyer, limits: perMinute(5), store, lease: true }))).toBe('INVALID_OPTION')
  })
})

describe('LimitsObject', () => {
  const transaction = (): Promise<never> => Promise.reject(new Error('not asked'))
  const texts = ['', '{', 'null', '[]', '{"sluice":1}', `"${'x'.repeat(70_000)}"`]

  it.each(texts)('answers %.20s with an error', async (body) => {
    const object = new LimitsObject({ storage: { transaction } })
    const response = await object.fetch(new Request('https://limits/', { method: 'POST', body }))
    expect([response.status, await response.json()]).toMatchObject([200, { error: { code: 'INVALID_MESSAGE' } }])
  })
})
