import { afterEach, describe, expect, it, vi } from 'vitest'
import type { Store } from '../../src/index.ts'
import { VERSION } from '../../src/util/copies.ts'
import { laterStore } from '../support/later.ts'

/** The modules of a copy of the package. */
interface Copy {
  readonly sluice: typeof import('../../src/index.ts')
  readonly fetch: typeof import('../../adapters/fetch/index.ts')
  readonly rules: typeof import('../../src/rules/index.ts')
}

/** Loads all modules again, as a process does that imports the package and requires its CommonJS copy. */
async function load(): Promise<Copy> {
  vi.resetModules()
  await (await import('../../src/limiter/wait-place.ts')).loadQueues()
  return {
    sluice: await import('../../src/index.ts'),
    fetch: await import('../../adapters/fetch/index.ts'),
    rules: await import('../../src/rules/index.ts'),
  }
}

const one = await load()
const other = await load()
const { everyone, createLimiter, fixedWindow, memoryStore } = one.sluice
const twice = fixedWindow({ quota: 2, window: '1h' })
const page = (): Response => new Response('ok')
const request = (init?: RequestInit): Request => new Request('http://localhost/', init)

afterEach(() => vi.restoreAllMocks())

describe('two copies of one version', () => {
  it('are two copies', () => {
    expect(other.sluice.SluiceError).not.toBe(one.sluice.SluiceError)
  })

  it('have one kind of error', () => {
    const thrown = new other.sluice.SluiceError('INVALID_COST', 'wrong')
    expect(thrown instanceof one.sluice.SluiceError).toBe(true)
    expect(new Error('other') instanceof one.sluice.SluiceError).toBe(false)
  })

  it('tell a class that extends the error from the error', () => {
    class Special extends one.sluice.SluiceError {}
    expect(new Special('INVALID_COST', 'wrong') instanceof Special).toBe(true)
    expect(new Special('INVALID_COST', 'wrong') instanceof other.sluice.SluiceError).toBe(true)
    expect(new one.sluice.SluiceError('INVALID_COST', 'wrong') instanceof Special).toBe(false)
  })

  it('take each limit of the other as it is', () => {
    const limiter = other.sluice.createLimiter({ keyer: everyone, limits: () => twice })
    expect(limiter.consume({}).limits[0]!.limit).toBe(twice)
  })

  const [memory, inner] = [memoryStore(), laterStore(memoryStore())]
  it.each<[string, Store | undefined, Store | undefined]>([
    ['on one store', memory, memory],
    ['on their own memory stores', undefined, undefined],
    ['on guards of one store', one.sluice.guard(inner), other.sluice.guard(inner)],
  ])('stack limiters of both %s', async (_, store, otherStore) => {
    const both = other.sluice.stack(
      createLimiter({ name: 'one', keyer: everyone, limits: twice, ...(store && { store }) }),
      other.sluice.createLimiter({
        name: 'other',
        keyer: everyone,
        limits: twice,
        ...(otherStore && { store: otherStore }),
      }),
    )
    for (const allowed of [true, true, false]) expect(await both.consume({})).toMatchObject({ allowed })
    expect((await both.consume({})).limits.map(({ used }) => used)).toEqual([2, 2])
  })

  it('refund a decision of the other, once', () => {
    const store = memoryStore()
    const options = { keyer: everyone, limits: fixedWindow({ quota: 4, window: '1h' }), store }
    const limiter = createLimiter(options)
    limiter.consume({}, { cost: 2 })
    const decision = limiter.consume({})
    other.sluice.createLimiter(options).refund(decision)
    limiter.refund(decision)
    expect(limiter.consume({}).remaining).toBe(1)
  })

  it('settle a decision of the other', () => {
    const limiter = createLimiter({ keyer: everyone, limits: fixedWindow({ quota: 4, window: '1h' }) })
    const decision = limiter.consume({})
    other.sluice.createLimiter({ keyer: everyone, limits: twice }).settle(decision, 2)
    expect(limiter.consume({}).remaining).toBe(1)
  })

  it('count preflights apart for a limiter of the other', async () => {
    const limiter = createLimiter<Request>({ keyer: everyone, limits: fixedWindow({ quota: 1, window: '1h' }) })
    const limited = other.fetch.rateLimit({ limiter })(page)
    const preflight = request({
      method: 'OPTIONS',
      headers: { origin: 'http://here', 'access-control-request-method': 'GET' },
    })
    expect((await limited(preflight)).status).toBe(200)
    expect((await limited(request())).status).toBe(200)
    expect((await limited(request())).status).toBe(429)
  })

  it('guard the store of a limiter of the other', async () => {
    const store = laterStore(memoryStore(), () => new Promise(() => undefined))
    const limiter = createLimiter<Request>({ keyer: everyone, limits: fixedWindow({ quota: 1, window: '1h' }), store })
    const limited = other.fetch.rateLimit({ limiter })(page)
    expect((await limited(request())).status).toBe(200)
    expect((await limited(request())).status).toBe(429)
  })

  it('count a request once that passes one limiter in both', async () => {
    vi.spyOn(process, 'emitWarning').mockReturnValue()
    const limiter = createLimiter<Request>({ keyer: everyone, limits: twice })
    const limited = one.fetch.rateLimit({ limiter })(other.fetch.rateLimit({ limiter })(page))
    const statuses = [await limited(request()), await limited(request()), await limited(request())]
    expect(statuses.map(({ status }) => status)).toEqual([200, 200, 429])
  })

  it('know the limiters of the other by their names', () => {
    const store = memoryStore()
    createLimiter({ name: 'api', keyer: everyone, limits: twice, store })
    const second = (): unknown => other.sluice.createLimiter({ name: 'api', keyer: () => 'all', limits: twice, store })
    expect(second).toThrow(expect.objectContaining({ code: 'DUPLICATE_LIMITER' }))
  })

  it('carry usage over when a limit of the same limiter has changed', () => {
    const store = memoryStore()
    const options = { name: 'api', keyer: everyone, shared: true, store }
    createLimiter({ ...options, limits: fixedWindow({ quota: 2, window: '1h', name: 'all' }) }).consume({})
    const more = other.sluice.fixedWindow({ quota: 3, window: '1h', name: 'all' })
    expect(other.sluice.createLimiter({ ...options, limits: more }).consume({}).remaining).toBe(1)
  })

  it('serve those that wait in the other first', async () => {
    let now = 0
    const limits = fixedWindow({ quota: 1, window: '1h' })
    const options = { keyer: everyone, limits, store: memoryStore({ clock: { now: () => now } }) }
    const limiter = createLimiter(options)
    limiter.consume({})
    const controller = new AbortController()
    const waiting = limiter.wait({}, { signal: controller.signal })
    now = 3_600_000
    const second = other.sluice.createLimiter(options)
    expect(second.consume({}).allowed).toBe(false)
    controller.abort()
    await expect(waiting).rejects.toThrow()
    expect(second.consume({}).allowed).toBe(true)
  })

  it('use rules of the other', () => {
    const rules = other.rules.createRules({
      policies: [{ name: 'all', key: 'method', limits: [{ quota: 1, window: '1h' }] }],
    })
    const limiter = createLimiter({ rules })
    expect(limiter.consume({ method: 'GET' })).toMatchObject({ allowed: true })
    expect(limiter.consume({ method: 'GET' })).toMatchObject({ allowed: false })
  })
})

describe('another version of the package', () => {
  const load09 = async (): Promise<Copy> => {
    vi.doMock('../../src/util/copies.ts', async (original) => {
      const copies = await original<typeof import('../../src/util/copies.ts')>()
      const brand = (type: { readonly prototype: object }, name: symbol): void =>
        void Object.defineProperty(type.prototype, name, { value: '0.0.9' })
      return { ...copies, VERSION: '0.0.9', brand, shared: (_: string, make: () => object) => make() }
    })
    const loaded = await load()
    vi.doUnmock('../../src/util/copies.ts')
    return loaded
  }

  it('is refused by name where its inside would be used', async () => {
    const old = await load09()
    const store = memoryStore()
    const limiter = createLimiter({ keyer: everyone, limits: twice })
    const oldLimiter = old.sluice.createLimiter({ keyer: everyone, limits: twice })
    const oldStore = old.sluice.memoryStore()
    const oldRules = old.rules.createRules({ policies: [] })
    const oldLater = old.sluice.guard(laterStore(store))
    const oldCached = old.sluice.denyCache(laterStore(store))
    const uses: Record<string, () => unknown> = {
      limiter: () => one.sluice.stack(limiter, oldLimiter),
      'limiter of an adapter': () => one.fetch.rateLimit({ limiter: oldLimiter }),
      decision: () => limiter.refund(oldLimiter.consume({})),
      'decision to settle': () => limiter.settle(oldLimiter.consume({}), 2),
      store: () => createLimiter({ keyer: everyone, limits: twice, store: oldStore }),
      'store of guard': () => one.sluice.guard(oldStore),
      'store of denyCache': () => one.sluice.denyCache(oldLater),
      'cached store of lease': () => one.sluice.lease(oldCached),
      rules: () => createLimiter({ rules: oldRules }),
    }
    for (const [name, use] of Object.entries(uses)) {
      expect(use, name).toThrow(expect.objectContaining({ code: 'VERSION_MISMATCH' }))
      expect(use, name).toThrow(`expected a value of sluice ${VERSION}, got a value of sluice 0.0.9`)
    }
  })

  it('makes limits, keyers and errors that are plain enough', async () => {
    const old = await load09()
    const limits = old.sluice.fixedWindow({ quota: 2, window: '1h' })
    const limiter = createLimiter({ keyer: old.sluice.everyone, limits })
    expect([1, 2, 3].map(() => limiter.consume({}).allowed)).toEqual([true, true, false])
    expect(new old.sluice.SluiceError('INVALID_COST', 'wrong') instanceof one.sluice.SluiceError).toBe(true)
  })
})
