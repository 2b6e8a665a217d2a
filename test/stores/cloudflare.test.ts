import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import manifest from '../../package.json' with { type: 'json' }
import { ownPackages } from '../support/own-packages.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { memoryStore } from '../../src/index.ts'
import { storeBehaviours } from '../../src/testing.ts'
import { afterTest } from '../support/after-test.ts'
import { readPage } from '../support/pages.ts'
import { blocksOf, root } from '../support/programs.ts'
import { until } from '../support/redis-tests.ts'
import { bundledWorker } from '../support/worker-bundle.ts'
import { startWorker, type TestWorker } from '../support/workers.ts'

const LONG = 120_000
const names = storeBehaviours(() => memoryStore()).map(({ name }) => name)

/** A Durable Object whose methods tests call by URL. */
const program = `
  import { DurableObject } from 'cloudflare:workers'
  import { createLimiter, fixedWindow, slidingWindowLog, stack } from 'sluice'
  import { rowStore } from 'sluice/extend'
  import { durableObjectStore } from 'sluice/cloudflare'
  import { storeBehaviours } from 'sluice/testing'

  const keyer = (key) => key
  class Limits extends DurableObject {
    offset = 0
    clock = { now: () => Date.now() + this.offset }
    store = durableObjectStore(this.ctx.storage, { clock: this.clock })
    limiter = createLimiter({ keyer, limits: fixedWindow({ quota: 1000, window: '1h' }), store: this.store })
    alarms = 0

    async fetch(request) {
      const { task, ...given } = await request.json()
      try {
        return Response.json((await this[task](given)) ?? null)
      } catch ({ code, message }) {
        return Response.json({ code, message })
      }
    }
    async alarm() {
      this.alarms++
      await this.store.alarm()
    }

    async behaviour({ name }) {
      const behaviours = storeBehaviours(async (clock) => {
        await this.ctx.storage.deleteAll()
        // Stores of one storage would share their limiters.
        const { storage } = this.ctx
        return durableObjectStore({ transaction: (work) => storage.transaction(work), get sql() { return storage.sql } }, { clock })
      }, { runs: 20 })
      await behaviours.find((each) => each.name === name).run()
      return 'has it'
    }
    async consume({ key, times = 1 }) {
      const decisions = await Promise.all(Array.from({ length: times }, () => this.limiter.consume(key)))
      return decisions.filter(({ allowed }) => allowed).length
    }
    async insert({ count }) {
      await Promise.all(Array.from({ length: count }, (_, i) => this.limiter.consume('key ' + i)))
    }
    async wide({ count }) {
      const limiters = Array.from({ length: count }, (_, i) =>
        createLimiter({ name: 'n' + i, keyer: () => 'wide ' + i, limits: fixedWindow({ quota: 5, window: '1h' }), store: this.store }))
      const limiter = stack(...limiters)
      const remaining = []
      for (let i = 0; i < 2; i++) remaining.push((await limiter.consume('x')).remaining)
      return remaining
    }
    /** Stores ten logs of many requests in one row, and adds some. */
    async grow({ requests, more }) {
      const limits = Array.from({ length: 10 }, (_, i) => slidingWindowLog({ name: 'log ' + i, quota: 100_000, window: '1h' }))
      let row
      const filling = rowStore({ sync: true, transact: (keys, change) => {
        this.offset++
        const { writes, result } = change([row], this.clock.now() * 1000)
        row = writes[0].row
        return result
      } })
      const filled = createLimiter({ name: 'grow', keyer, limits, store: filling })
      for (let i = 0; i < requests; i++) filled.consume('ann')
      await this.ctx.storage.put('sluice:["grow","ann"]', { row: row.slice(), expiresAt: this.clock.now() + 4e6 })
      const limiter = createLimiter({ name: 'grow', keyer, limits, store: this.store })
      for (let i = 0; i < more; i++) {
        this.offset++
        await limiter.consume('ann')
      }
      return 'all'
    }
    async largest({ bytes }) {
      await this.ctx.storage.put('large', new Uint8Array(bytes))
    }
    async state() {
      const keys = [...(await this.ctx.storage.list()).keys()]
      return { keys, alarm: await this.ctx.storage.getAlarm(), alarms: this.alarms }
    }
    async later({ ms }) {
      this.offset += ms
    }
    async ring() {
      await this.alarm()
    }
    async keep() {
      await this.ctx.storage.put('own', 'kept')
    }
  }
  export class Sql extends Limits {}
  export class KeyValue extends Limits {}
  export default {
    fetch(request, env) {
      const [, kind, name] = new URL(request.url).pathname.split('/')
      return env[kind].getByName(name).fetch(request)
    },
  }`

interface State {
  readonly keys: readonly string[]
  readonly alarm: number | null
  readonly alarms: number
}

let worker: TestWorker
let objects = 0
beforeAll(async () => {
  worker = await startWorker(await bundledWorker(program), {
    Sql: { className: 'Sql', useSQLite: true },
    KeyValue: { className: 'KeyValue', useSQLite: false },
  })
}, LONG)
afterAll(() => worker.dispose())

describe.each(['Sql', 'KeyValue'])('durableObjectStore in an object with the storage %s', (kind) => {
  /** Returns a function that calls the methods of a new object. */
  function object(): (task: string, given?: object) => Promise<unknown> {
    const url = `http://localhost/${kind}/${objects++}`
    return async (task, given = {}) => {
      const response = await worker.dispatchFetch(url, { method: 'POST', body: JSON.stringify({ task, ...given }) })
      return response.json()
    }
  }

  // Values of objects without SQL are only smaller.
  const own = kind === 'Sql' ? names : names.filter((name) => /kept apart|decides the same/.test(name))
  it.each(own)('%s', { timeout: LONG }, async (name) => {
    expect(await object()('behaviour', { name })).toBe('has it')
  })

  it('decides more keys together than the storage takes at a time', { timeout: LONG }, async () => {
    expect(await object()('wide', { count: 300 })).toEqual([4, 3])
  })

  it('keeps rows until they have expired, and deletes them by alarm', { timeout: LONG }, async () => {
    const ask = object()
    await ask('keep')
    await ask('consume', { key: 'ann' })
    const first = (await ask('state')) as State
    expect(first.keys).toEqual(['own', 'sluice:["default","ann"]'])
    expect(first.alarm).toBeGreaterThan(Date.now())
    await ask('ring')
    const kept = (await ask('state')) as State
    expect(kept.keys).toEqual(first.keys)
    expect(kept.alarm).toBe(first.alarm)
    await ask('later', { ms: 3_602_000 })
    await ask('ring')
    expect(await ask('state')).toMatchObject({ keys: ['own'] })
  })

  it('deletes many rows in several alarms, which the platform rings', { timeout: LONG }, async () => {
    const ask = object()
    await ask('insert', { count: 1200 })
    await ask('later', { ms: 3_602_000 })
    const before = (await ask('state')) as State
    expect(before.keys).toHaveLength(1200)
    await ask('ring')
    const state = async (): Promise<State> => (await ask('state')) as State
    expect((await state()).keys.length).toBeGreaterThanOrEqual(1200 - 3 * 512)
    await until(async () => (await state()).keys.length === 0)
    const { alarms } = await state()
    expect(alarms).toBeGreaterThanOrEqual(3)
    expect(alarms).toBeLessThan(6)
  })

  it('refuses a row that is larger than a value can be', { timeout: LONG }, async () => {
    const answer = await object()('grow', { requests: 650, more: 60 })
    if (kind === 'Sql') expect(answer).toBe('all')
    else
      expect(answer).toMatchObject({
        code: 'STORE_REJECTED',
        message: expect.stringMatching(/would have 130\d{3} bytes, .* at most 130048/),
      })
  })
})

const guides = [
  ['docs/guides/databases.md', 'Limits'],
  ['docs/guides/workers.md', 'LimitsObject'],
] as const

describe.each(guides)('the Worker of %s', (page, className) => {
  it('admits the quota of each of three clients, in 200 requests', { timeout: LONG }, async () => {
    const block = blocksOf(readPage(page)).find(({ code }) => code.includes('cloudflare:workers'))
    const worker = await startWorker(await bundledWorker(block!.code), { LIMITS: { className, useSQLite: true } }, [])
    afterTest(() => worker.dispose())
    const statuses = await Promise.all(
      Array.from({ length: 200 }, async (_, i) => {
        // The third client has a network of IPv6, and a new address for each request.
        const address = i % 3 === 2 ? `2001:db8::${i}` : `203.0.113.${i % 3}`
        const headers = { 'cf-connecting-ip': address }
        const response = await worker.dispatchFetch('http://localhost/', { headers })
        const text = await response.text()
        if (response.status === 500) throw new Error(text)
        if (page.includes('workers')) expect(response.headers.get('RateLimit')).toMatch(/^"30-per-1m";r=\d+;t=\d+$/)
        if (response.status === 429) expect(Number(response.headers.get('Retry-After'))).toBeGreaterThan(0)
        return response.status
      }),
    )
    // Half a unit a second returns while the requests are sent.
    const admitted = statuses.filter((each) => each === 200).length
    expect(admitted).toBeGreaterThanOrEqual(90)
    expect(admitted).toBeLessThan(180)
    for (const client of [0, 1, 2])
      expect(new Set(statuses.filter((_, i) => i % 3 === client))).toEqual(new Set([200, 429]))
  })
})

describe('the Worker of the guide', () => {
  const { code } = blocksOf(readPage('docs/guides/workers.md')).find((each) =>
    each.code.includes('cloudflare:workers'),
  )!

  it('is strict TypeScript, with the types of wrangler', { timeout: LONG }, async () => {
    const types = join(await ownPackages('workers'), 'node_modules/@cloudflare/workers-types')
    const folder = await mkdtemp(join(root, 'node_modules/.cache/sluice-guide-'))
    afterTest(() => rm(folder, { recursive: true, force: true }))
    const binding = "LIMITS: DurableObjectNamespace<import('./worker.ts').LimitsObject>"
    const config = {
      compilerOptions: {
        strict: true,
        noEmit: true,
        module: 'esnext',
        moduleResolution: 'bundler',
        target: 'es2023',
        lib: ['es2023'],
        types: [types],
        allowImportingTsExtensions: true,
        skipLibCheck: true,
        paths: Object.fromEntries(
          ['', '/cloudflare', '/hono'].map((name) => [`sluice${name}`, [join(root, typesOf(`.${name}`))]]),
        ),
      },
      include: ['worker.ts', 'env.d.ts'],
    }
    await writeFile(join(folder, 'worker.ts'), code)
    await writeFile(join(folder, 'env.d.ts'), `declare namespace Cloudflare { interface Env { ${binding} } }`)
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config))
    const compile = promisify(execFile)(join(root, 'node_modules/.bin/tsc'), ['-p', folder])
    expect(await compile.catch((error: unknown) => error)).toMatchObject({ stdout: '' })
  })

  it('has the size that the guide says, minified and gzipped', async () => {
    const bytes = gzipSync(await bundledWorker(code, { built: true }), { level: 9 }).length
    const said = Number(/This Worker has (\d+) kB, minified and gzipped/.exec(readPage('docs/guides/workers.md'))![1])
    expect(bytes / 1000).toBeGreaterThan(said - 2)
    expect(bytes / 1000).toBeLessThan(said + 2)
  })
})

type Name = keyof typeof manifest.exports
function typesOf(name: string): string {
  const target = manifest.exports[name as Name]
  return typeof target === 'string' ? target : target.import.types
}
