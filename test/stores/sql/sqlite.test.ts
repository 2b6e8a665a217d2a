import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import express from 'express'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { rateLimit } from '../../../adapters/express/index.ts'
import {
  concurrent,
  createLimiter,
  type Decision,
  fixedWindow,
  guard,
  type Limit,
  type Limiter,
  type SyncStore,
} from '../../../src/index.ts'
import { rowStore } from '../../../src/extend.ts'
import { type Charge, perform } from '../../../src/stores/store.ts'
import { sqliteDatabase, sqliteStore, type SqliteStoreOptions } from '../../../src/stores/sqlite.ts'
import { storeBehaviours } from '../../../src/testing.ts'
import { casesHere, QUICK, SLOW_ONCE } from '../../parts.ts'
import { afterTest } from '../../support/after-test.ts'
import { warningsOfEachTest } from '../../support/guarded.ts'
import { newerNode } from '../../support/newer-node.ts'
import { builtPackage } from '../../support/built.ts'
import { until } from '../../support/redis-tests.ts'
import { sqliteAddon } from '../../support/sqlite-addon.ts'

beforeAll(sqliteAddon, 600_000)

const WORKER = fileURLToPath(new URL('../../support/sqlite-worker.mjs', import.meta.url))

let folder: string
let built: string
let files = 0
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-sqlite-'))
  built = await builtPackage()
})
afterAll(() => {
  rmSync(folder, { recursive: true, force: true })
})

function newFile(): string {
  return join(folder, `limits-${files++}.db`)
}

/** A connection of better-sqlite3, as an application opens it. */
function connect(file: string): Database.Database {
  const database = new Database(file, { timeout: 0 })
  database.pragma('journal_mode = WAL')
  afterTest(() => database.close())
  return database
}

function store(file: string | Database.Database, options?: SqliteStoreOptions): SyncStore {
  const made = sqliteStore(file, options)
  afterTest(() => made.close())
  return made
}

const warnings = warningsOfEachTest()

const perKey = (key: string): string => key

function on(store: SyncStore, limits: Limit = fixedWindow({ quota: 2, window: '1h' })): Limiter<string, Decision> {
  return createLimiter({ keyer: perKey, limits, store })
}

function failure(work: () => unknown): unknown {
  try {
    return work()
  } catch (error) {
    return error
  }
}

const failed = (message: RegExp, code = 'STORE_FAILED'): object =>
  expect.objectContaining({ code, message: expect.stringMatching(message), cause: expect.anything() })

interface StartOptions {
  readonly execPath?: string
  readonly program?: string
}

function start(task: string, file: string, given: object = {}, options: StartOptions = {}): ChildProcess {
  const { execPath = process.execPath, program = WORKER } = options
  const job = { package: built, task, file, ...given }
  const child = fork(program, [JSON.stringify(job)], {
    execPath,
    execArgv: [],
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  })
  afterTest(() => child.kill('SIGKILL'))
  return child
}

/** The text that a child prints. */
async function printed(child: ChildProcess): Promise<unknown> {
  let text = ''
  child.stdout!.on('data', (chunk: Buffer) => (text += chunk.toString()))
  await once(child, 'close')
  return JSON.parse(text)
}

async function written(file: string): Promise<void> {
  await until(async () => existsSync(file))
}

/** Process warnings are emitted in the next turn. */
const emitted = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** Ends at once, so that other tests are not disturbed. */
const long = 60_000

describe('the suite', () => {
  // equality.test.ts has a longer search.
  const behaviours = storeBehaviours((clock) => store(connect(newFile()), { clock }), { runs: 20 })
  for (const { name, run } of casesHere(behaviours, () => true)) it(name, run, long)

  const guarded = storeBehaviours((clock) => guard(store(newFile(), { clock, timeout: '5s' })), { runs: 20 })
  describe.each(QUICK)('in a guard', () => {
    for (const { name, run } of guarded) it(name, run, long)
  })

  it.each(SLOW_ONCE)('passes with node:sqlite', { timeout: 300_000 }, async () => {
    const child = start('suite', newFile(), {}, { execPath: newerNode() })
    expect(await printed(child)).toEqual({ behaviours: guarded.length, failures: [] })
  })
})

type Answer = Record<'admitted' | 'busy', number>

describe('several processes', () => {
  const own = process.execPath
  const sumOf = (all: readonly number[]): number => all.reduce((sum, each) => sum + each, 0)

  const patient: SqliteStoreOptions = { timeout: '30s' }
  const workers = [
    { title: 'four of this Node', paths: () => [own, own, own, own], quota: 1000, options: patient },
    {
      title: 'two of this Node, and two with node:sqlite',
      paths: () => [own, own, newerNode(), newerNode()],
      quota: 1000,
      options: patient,
    },
    // As many as docs/guides/databases.md promises.
    { title: 'sixteen, by default', paths: () => Array.from({ length: 16 }, () => own), quota: 100, options: {} },
  ]
  it.each(casesHere(workers, ({ title }) => title === 'four of this Node').map((each) => [each.title, each] as const))(
    'admit exactly the quota: %s',
    { timeout: 300_000 },
    async (_, { paths, quota, options }) => {
      const file = newFile()
      store(file)
      const children = paths().map((execPath) => start('ask', file, { quota, asks: 400, options }, { execPath }))
      await Promise.all(children.map((each) => once(each, 'message')))
      const answering = children.map(async (each) => (await once(each, 'message')) as [Answer])
      for (const each of children) each.send('go')
      const answers = (await Promise.all(answering)).map(([answer]) => answer)
      const admitted = answers.map((each) => each.admitted)
      expect([sumOf(admitted), sumOf(answers.map(({ busy }) => busy))]).toEqual([quota, 0])
      // With a large quota, none of them only waits for the others.
      if (quota === 1000) expect(Math.min(...admitted)).toBeGreaterThan(0)
    },
  )

  it.each(QUICK)('lose nothing but the transaction of one that is killed', { timeout: long }, async () => {
    const [file, marker] = [newFile(), newFile()]
    const limiter = on(store(file, { timeout: 100 }), fixedWindow({ quota: 5, window: '1h' }))
    const child = start('stop', file, { marker })
    await written(marker)
    expect(failure(() => limiter.consume('ann'))).toEqual(failed(/locked the file for longer/, 'STORE_BUSY'))
    child.kill('SIGKILL')
    await once(child, 'close')
    expect(limiter.peek('ann').remaining).toBe(3)
    expect(limiter.consume('ann')).toMatchObject({ allowed: true, remaining: 3 })
    expect(connect(file).pragma('integrity_check', { simple: true })).toBe('ok')
  })

  it.each(QUICK)('wait for each other', { timeout: long }, async () => {
    const [file, marker] = [newFile(), newFile()]
    const limiter = on(store(file, { timeout: '30s' }))
    start('hold', file, { marker, ms: 300 })
    await written(marker)
    const before = performance.now()
    expect(limiter.consume('ann').allowed).toBe(true)
    expect(performance.now() - before).toBeGreaterThan(50)
  })
})

describe('a file that is locked', () => {
  /** Milliseconds of pauses. How long they take also depends on what else the machine does. */
  const sum = ({ mock }: { mock: { calls: unknown[][] } }): number =>
    mock.calls.reduce((all, call) => all + Number(call[3]), 0)
  let file: string
  let other: Database.Database
  beforeEach(() => {
    file = newFile()
    store(file)
    other = connect(file)
  })

  it.each(QUICK)('is tried until the timeout, and nothing is charged', () => {
    const limiter = on(store(file, { timeout: 100 }))
    const pauses = vi.spyOn(Atomics, 'wait')
    other.exec('BEGIN IMMEDIATE')
    const before = performance.now()
    expect(failure(() => limiter.consume('ann'))).toEqual(
      failed(/SQLite could not decide: Another process/, 'STORE_BUSY'),
    )
    expect(performance.now() - before).toBeGreaterThanOrEqual(100)
    expect(sum(pauses)).toBeLessThan(200)
    pauses.mockRestore()
    other.exec('ROLLBACK')
    expect(limiter.consume('ann').remaining).toBe(1)
  })

  it.each(QUICK)('is read by peek', () => {
    const limiter = on(store(file))
    limiter.consume('ann')
    other.exec('BEGIN IMMEDIATE')
    expect(limiter.peek('ann')).toMatchObject({ allowed: true, remaining: 0 })
  })

  it.each(QUICK)(
    'limits in the process behind a guard, and by the file as soon as it is free',
    { timeout: long },
    async () => {
      const changes: string[] = []
      const guarded = guard(store(file, { timeout: 1 }), { onChange: ({ state }) => void changes.push(state) })
      afterTest(() => guarded.close())
      const limiter = on(guarded)
      other.exec('BEGIN IMMEDIATE')
      const decisions = ['ann', 'ann', 'ann', 'ann'].map((key) => limiter.consume(key))
      expect(decisions.map(({ allowed, degraded }) => `${allowed} ${degraded}`)).toEqual([
        'true local',
        'true local',
        'false local',
        'false local',
      ])
      // What was counted in the process is refunded there.
      limiter.refund(decisions[0]!)
      expect(limiter.consume('ann').allowed).toBe(true)
      expect(failure(() => limiter.reset('ann'))).toMatchObject({ code: 'STORE_BUSY' })
      other.exec('ROLLBACK')
      expect(limiter.consume('ann')).toMatchObject({ allowed: true, degraded: undefined })
      await emitted()
      expect(changes).toEqual([])
      expect(warnings.codes).toEqual(['SLUICE_FILE_BUSY', 'SLUICE_LOCAL'])
      expect(warnings.messages[0]).toMatch(`SQLite at ${file}, table "sluice": another process has locked the file`)
    },
  )

  it.each(SLOW_ONCE)('blocks the process for no longer than the budget', { timeout: long }, async () => {
    const limiter = on(store(file))
    const pauses = vi.spyOn(Atomics, 'wait')
    const paused = (): number => sum(pauses)
    other.exec('BEGIN IMMEDIATE')
    const consume = (): void => expect(failure(() => limiter.consume('ann'))).toEqual(failed(/locked/, 'STORE_BUSY'))
    const before = performance.now()
    // One turn.
    for (let i = 0; i < 20; i++) consume()
    const inOneTurn = paused()
    while (performance.now() < before + 6000) {
      consume()
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    other.exec('ROLLBACK')
    await emitted()
    const [inAll, seconds] = [paused(), (performance.now() - before) / 1000]
    pauses.mockRestore()
    expect(inOneTurn).toBeGreaterThan(500)
    expect(inOneTurn).toBeLessThan(1000 + 100 * seconds)
    expect(inAll).toBeLessThan(1000 + 100 * seconds)
    expect(warnings.codes).toEqual(['SLUICE_FILE_BUSY'])
    expect(limiter.consume('ann').allowed).toBe(true)
  })

  it.each(QUICK)('shares the budget between stores of one file', { timeout: long }, async () => {
    const stores = [store(file), store(file, { table: 'other' })]
    const elsewhere = newFile()
    const third = on(store(elsewhere, { timeout: 50 }))
    other.exec('BEGIN IMMEDIATE')
    connect(elsewhere).exec('BEGIN IMMEDIATE')
    const waits = [on(stores[0]!), on(stores[1]!), third].map((limiter) => {
      const before = performance.now()
      failure(() => limiter.consume('ann'))
      return performance.now() - before
    })
    await emitted()
    expect(warnings.codes).toEqual(['SLUICE_FILE_BUSY', 'SLUICE_FILE_BUSY', 'SLUICE_FILE_BUSY'])
    expect(waits[0]).toBeGreaterThan(900)
    expect(waits[1]).toBeLessThan(waits[0]! / 2)
    expect(waits[2]).toBeGreaterThanOrEqual(50)
  })

  it.each(QUICK)('loses no slot that was released meanwhile', { timeout: long }, async () => {
    const slots = concurrent({ quota: 60, expiresAfter: '10m' })
    const limiter = on(guard(store(file)), slots)
    const decisions = Array.from({ length: 60 }, () => limiter.consume('ann'))
    expect(limiter.consume('ann').allowed).toBe(false)
    // Without repeats, a release that finds the file locked is lost.
    const once = createLimiter({
      keyer: perKey,
      limits: slots,
      store: rowStore(sqliteDatabase(file, { timeout: 1 })),
      shared: true,
    })
    const lost = once.consume('bob')
    other.exec('BEGIN IMMEDIATE')
    once.release(lost)
    const before = performance.now()
    for (const each of decisions) limiter.release(each)
    // They do not wait, so that decisions can.
    expect(performance.now() - before).toBeLessThan(500)
    other.exec('ROLLBACK')
    await until(async () => limiter.peek('ann').remaining === 59)
    expect(limiter.peek('bob').remaining).toBe(58)
  })

  it.each(QUICK)('gets refunds and settlements when it is closed', () => {
    const made = store(file)
    const limiter = on(made, fixedWindow({ quota: 10, window: '1h' }))
    const [one, two, three] = ['ann', 'ann', 'ann'].map((key) => limiter.consume(key))
    other.exec('BEGIN IMMEDIATE')
    limiter.refund(one!)
    limiter.settle(two!, 4)
    other.exec('ROLLBACK')
    limiter.refund(three!)
    made.close()
    expect(on(store(file), fixedWindow({ quota: 10, window: '1h' })).peek('ann').remaining).toBe(5)
  })

  it.each(QUICK)('says how many refunds and settlements are lost if the file is locked when it is closed', async () => {
    const made = store(file, { timeout: 1 })
    const limiter = on(made, fixedWindow({ quota: 10, window: '1h' }))
    const [one, two] = ['ann', 'ann'].map((key) => limiter.consume(key))
    other.exec('BEGIN IMMEDIATE')
    limiter.refund(one!)
    limiter.settle(two!, 4)
    made.close()
    other.exec('ROLLBACK')
    await emitted()
    expect(warnings.codes).toContain('SLUICE_FILE_BUSY')
    expect(warnings.messages.join()).toContain('Refunds, settlements and releases that are lost: 2')
  })

  it.each(SLOW_ONCE)('keeps at most 10,000 charges, for a minute', () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    const made = store(file)
    const limiter = on(made, fixedWindow({ quota: 100_000, window: '1h' }))
    const [{ limits }, later] = [limiter.consume('ann'), limiter.consume('ann')]
    other.exec('BEGIN IMMEDIATE')
    const refund = (): unknown =>
      failure(() => perform(made, { kind: 'adjust', charges: limits as readonly Charge[], units: [-1] }))
    const errors = Array.from({ length: 10_001 }, refund)
    expect(errors.filter((error) => error !== undefined)).toEqual([expect.objectContaining({ code: 'STORE_BUSY' })])
    expect(errors[10_000]).toBeDefined()
    vi.advanceTimersByTime(61_000)
    // What is too old is given up, and there is room again.
    vi.advanceTimersByTime(5000)
    expect(vi.getTimerCount()).toBe(0)
    limiter.refund(later)
    other.exec('ROLLBACK')
    vi.advanceTimersByTime(1000)
    expect(limiter.peek('ann').remaining).toBe(100_000 - 1 - 1)
  })

  it.each(QUICK)('limits in the process in an adapter, with no guard of its own', { timeout: long }, async () => {
    const app = express()
    const limits = fixedWindow({ quota: 2, window: '1h' })
    app.use(rateLimit({ keyer: () => 'all', limits, store: store(file, { timeout: 1 }), refundWhen: 'success' }))
    app.get('/', (_, response) => void response.status(204).end())
    app.get('/missing', (_, response) => void response.status(404).end())
    const server = app.listen(0, '127.0.0.1')
    await once(server, 'listening')
    afterTest(() => server.close())
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const status = async (path: string): Promise<number> => (await fetch(`${url}${path}`)).status
    expect(await status('/missing')).toBe(404)
    other.exec('BEGIN IMMEDIATE')
    const statuses: number[] = []
    for (let i = 0; i < 4; i++) statuses.push(await status(i === 0 ? '/' : '/missing'))
    expect(statuses).toEqual([204, 404, 404, 429])
    expect(warnings.codes).toContain('SLUICE_FILE_BUSY')
    other.exec('ROLLBACK')
  })
})

describe.each(QUICK)('a database that fails', () => {
  it('rolls back when it is full, and decides again when it is not', () => {
    const database = connect(newFile())
    const limiter = on(store(database))
    limiter.consume('ann')
    const pages = database.pragma('page_count', { simple: true }) as number
    database.pragma(`max_page_count = ${pages}`)
    let last = 0
    const error = failure(() => {
      for (; last < 1000; last++) limiter.consume(`key ${last}`)
    })
    expect(error).toEqual(failed(/SQLite could not decide: The disk is full/))
    expect(last).toBeLessThan(1000)
    expect(database.inTransaction).toBe(false)
    database.pragma('max_page_count = 100000')
    // What failed was not charged, and all else was.
    expect(limiter.consume(`key ${last}`).remaining).toBe(1)
    expect(limiter.consume('ann').remaining).toBe(0)
  })

  it('rolls back when the decision fails', () => {
    const database = connect(newFile())
    let time = Number.NaN
    const limiter = on(store(database, { clock: { now: () => time } }))
    expect(failure(() => limiter.consume('ann'))).toMatchObject({ code: 'INVALID_CLOCK' })
    expect(database.inTransaction).toBe(false)
    time = Date.now()
    expect(limiter.consume('ann').remaining).toBe(1)
  })

  it('reports a file that is damaged', () => {
    const file = newFile()
    const database = connect(file)
    const limiter = on(sqliteStore(database))
    for (let i = 0; i < 1000; i++) limiter.consume(`key ${i}`)
    database.close()
    const bytes = readFileSync(file)
    // The last third: the pages before it have the schema and the index, which opening the file reads.
    writeFileSync(file, bytes.fill(7, Math.floor(bytes.length / 6144) * 4096))
    const damaged = on(store(file))
    const error = failure(() => {
      for (let i = 0; i < 1000; i++) damaged.consume(`key ${i}`)
    })
    expect(error).toEqual(failed(/could not decide: The file is damaged/))
    writeFileSync(file, 'This is a text.'.repeat(1000))
    expect(failure(() => sqliteStore(file))).toEqual(failed(/limits-\d+\.db.*: The file is damaged/, 'STORE_SETUP'))
  })

  it('does not keep an application from starting, and decides when it no longer fails', async () => {
    const file = newFile()
    const database = connect(file)
    on(sqliteStore(database)).consume('ann')
    database.close()
    // The page that has the schema.
    writeFileSync(file, readFileSync(file).fill(7, 100, 4096))
    const made = store(file)
    const limiter = on(made)
    expect(failure(() => limiter.consume('ann'))).toEqual(failed(/The file is damaged/))
    await expect(made.ready!()).rejects.toEqual(failed(/The file is damaged/))
    rmSync(file)
    expect(limiter.consume('ann').remaining).toBe(1)
  })

  it('reports a folder that does not exist, and a file that may not be written', () => {
    const missing = join(folder, 'missing', 'limits.db')
    expect(failure(() => sqliteStore(missing))).toEqual(
      failed(/SQLite at .*missing.limits.*(folder|directory)/i, 'STORE_SETUP'),
    )
    const file = newFile()
    store(file)
    // A path below a file cannot be reached, as a path below a folder of another user.
    expect(failure(() => sqliteStore(join(file, 'limits.db')))).toEqual(
      failed(/this user may not use it/, 'STORE_SETUP'),
    )
    const database = new Database(file, { readonly: true })
    afterTest(() => database.close())
    expect(failure(() => sqliteStore(database))).toEqual(failed(/may not be written/, 'STORE_SETUP'))
  })

  it('reports a table of something else', () => {
    const database = connect(newFile())
    database.exec('CREATE TABLE sluice (id INTEGER)')
    expect(failure(() => sqliteStore(database))).toEqual(failed(/has other columns.*no such column/, 'STORE_SETUP'))
  })

  it('is not ready while the table is deleted, or the file may not be written', async () => {
    const file = newFile()
    const database = connect(file)
    const made = sqliteStore(database)
    await made.ready!()
    database.pragma('query_only = ON')
    await expect(made.ready!()).rejects.toEqual(failed(/may not be written/, 'STORE_SETUP'))
    expect(failure(() => on(made).consume('k'))).toEqual(failed(/may not be written/, 'STORE_SETUP'))
    database.pragma('query_only = OFF')
    await made.ready!()
    database.exec('DROP TABLE sluice')
    await expect(made.ready!()).rejects.toEqual(failed(/no such table/, 'STORE_SETUP'))
  })

  it('is not ready while another process has locked the file: that is no mistake of the set-up', async () => {
    const file = newFile()
    const made = store(file)
    const other = connect(file)
    other.exec('BEGIN IMMEDIATE')
    await expect(made.ready!()).rejects.toEqual(failed(/locked the file/, 'STORE_BUSY'))
    other.exec('COMMIT')
    await made.ready!()
  })
})

describe.each(QUICK)('a file that is replaced', () => {
  const all = ['', '-wal', '-shm']
  const cases: [title: string, ends: readonly string[], isUsed: boolean, remaining: number][] = [
    ['deleted, and made again by another process', all, true, 0],
    ['deleted', all, false, 1],
    ['without its WAL, and used by another process', ['-wal', '-shm'], true, 0],
  ]
  it.each(cases)('is opened again within a second: %s', { timeout: long }, async (...given) => {
    const [, ends, isUsed, remaining] = given
    const file = newFile()
    const limiter = on(store(file))
    expect([1, 2, 3].map(() => limiter.consume('ann').allowed)).toEqual([true, true, false])
    for (const end of ends) rmSync(`${file}${end}`, { force: true })
    // The other process has used one of two.
    if (isUsed) await once(start('use', file, { quota: 2 }), 'message')
    await new Promise((resolve) => setTimeout(resolve, 1000))
    expect(limiter.consume('ann')).toMatchObject({ allowed: true, remaining })
    expect(on(store(file)).consume('ann').allowed).toBe(remaining === 1)
    expect(connect(file).pragma('integrity_check', { simple: true })).toBe('ok')
    await emitted()
    // A busy machine may also report the file as locked.
    const messages = warnings.messages.filter((_, i) => warnings.codes[i] !== 'SLUICE_FILE_BUSY')
    expect(messages).toEqual([expect.stringMatching(/^SQLite at .*limits-.*: the file, .* was deleted or replaced/)])
  })

  it('and whose WAL was deleted keeps no store from starting, and loses no counts', async () => {
    const file = newFile()
    const limiter = on(store(file))
    for (const _ of [1, 2]) limiter.consume('ann')
    rmSync(`${file}-wal`)
    const late = on(store(file))
    expect(failure(() => late.consume('ann'))).toEqual(failed(/-wal or -shm at the end .* deleted. Then restart/))
    await new Promise((resolve) => setTimeout(resolve, 1000))
    expect([limiter, late].map((each) => each.consume('ann').allowed)).toEqual([false, false])
    await emitted()
    expect(warnings.codes).toEqual(['SLUICE_FILE_REPLACED'])
  })

  it('fails while there is no folder, and is opened when there is one', { timeout: long }, async () => {
    const inner = mkdtempSync(join(folder, 'inner-'))
    const limiter = on(store(join(inner, 'limits.db')))
    limiter.consume('ann')
    rmSync(inner, { recursive: true })
    await new Promise((resolve) => setTimeout(resolve, 1000))
    for (const _ of [1, 2])
      expect(failure(() => limiter.consume('ann'))).toEqual(failed(/folder of the file/, 'STORE_SETUP'))
    mkdirSync(inner)
    expect(limiter.consume('ann').remaining).toBe(1)
    await emitted()
    expect(warnings.codes).toEqual(['SLUICE_FILE_REPLACED'])
  })
})

describe('clocks and expiry', () => {
  it.each(QUICK)('counts by the clock of the system', () => {
    const made = store(newFile())
    on(made).consume('ann')
    expect(Math.abs(made.clock.now() - Date.now())).toBeLessThan(1000)
  })

  it.each(SLOW_ONCE)('deletes a hundred thousand expired rows, in steps of a hundred', { timeout: long }, () => {
    const database = connect(newFile())
    const limiter = on(store(database), fixedWindow({ quota: 1_000_000, window: '1h' }))
    limiter.consume('live')
    const count = (): number => database.prepare('SELECT count(*) FROM sluice').pluck().get() as number
    database.exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
      INSERT INTO sluice SELECT '["default","' || i || '"]', zeroblob(90), 1000 FROM n`)
    expect(count()).toBe(100_001)
    for (let i = 0; i < 1600; i++) {
      const before = i % 100 === 15 ? count() : undefined
      limiter.consume('live')
      if (before !== undefined) expect(before - count()).toBeGreaterThanOrEqual(0)
    }
    expect(count()).toBe(100_001 - 100 * 100)
    // A table of live and expired rows: nothing that lives is lost, and nothing expired stays.
    database.exec("DELETE FROM sluice WHERE key LIKE '%0\"]'; DELETE FROM sluice WHERE key LIKE '%1__\"]'")
    database.exec("DELETE FROM sluice WHERE key > '[\"default\",\"3'  AND key NOT LIKE '%live%'")
    const left = count()
    for (let i = 0; i < (left / 100 + 2) * 2 * 16; i++) limiter.consume('live')
    expect(count()).toBe(1)
    // The next round begins at the first row again.
    database.exec(`INSERT INTO sluice VALUES ('["default","0"]', zeroblob(90), 1000)`)
    for (let i = 0; i < 3 * 16; i++) limiter.consume('live')
    expect(count()).toBe(1)
    expect(limiter.peek('live').remaining).toBeLessThan(1_000_000 - 1600)
  })
})

describe.each(QUICK)('a database that is open', () => {
  it('stays open, and keeps its settings', () => {
    const database = new Database(newFile(), { timeout: 1234 })
    afterTest(() => database.close())
    const made = sqliteStore(database, { table: 'of "limits"' })
    on(made).consume('ann')
    made.close()
    expect(database.prepare('SELECT count(*) FROM "of ""limits"""').pluck().get()).toBe(1)
    expect(database.pragma('journal_mode', { simple: true })).toBe('delete')
    expect(database.pragma('busy_timeout', { simple: true })).toBe(1234)
    expect(failure(() => on(made).consume('ann'))).toMatchObject({ code: 'STORE_CLOSED' })
  })

  it('waits for a locked file as long as the store may, also if its own time-out is longer', () => {
    const file = newFile()
    const database = new Database(file)
    const other = connect(file)
    afterTest(() => database.close())
    const limiter = on(store(database, { timeout: 50 }))
    other.exec('BEGIN IMMEDIATE')
    const before = performance.now()
    expect(failure(() => limiter.consume('ann'))).toMatchObject({ code: 'STORE_BUSY' })
    expect(performance.now() - before).toBeLessThan(4000)
    expect(database.pragma('busy_timeout', { simple: true })).toBe(5000)
    other.exec('ROLLBACK')
    expect(limiter.consume('ann').allowed).toBe(true)
    expect(database.pragma('busy_timeout', { simple: true })).toBe(5000)
  })

  it('becomes a store when others let go of the file, without a WAL', () => {
    const file = newFile()
    const [database, other] = [new Database(file, { timeout: 0 }), new Database(file, { timeout: 0 })]
    afterTest(() => other.close())
    afterTest(() => database.close())
    other.exec('CREATE TABLE orders (id INTEGER)')
    const pauses = vi.spyOn(Atomics, 'wait').mockImplementation(() => {
      if (other.inTransaction) other.exec('COMMIT')
      return 'timed-out'
    })
    const prepared = new Set<string>()
    // Another process writes whenever a statement is prepared for the first time.
    const prepare = vi.spyOn(database, 'prepare').mockImplementation((text: string) => {
      if (!prepared.has(text) && !other.inTransaction) other.exec('BEGIN EXCLUSIVE')
      prepared.add(text)
      return Database.prototype.prepare.call(database, text)
    })
    const made = failure(() => sqliteStore(database))
    const waits = pauses.mock.calls.length
    prepare.mockRestore()
    pauses.mockRestore()
    expect(waits).toBeGreaterThan(1)
    if (other.inTransaction) other.exec('COMMIT')
    const limiter = on(made as SyncStore)
    expect(limiter.consume('ann').allowed).toBe(true)
  })

  it('keeps a transaction that the application has begun', () => {
    const database = connect(newFile())
    const limiter = on(store(database))
    database.exec('CREATE TABLE orders (id INTEGER); BEGIN; INSERT INTO orders VALUES (1)')
    expect(failure(() => limiter.consume('ann'))).toEqual(failed(/within a transaction/))
    database.exec('COMMIT')
    expect(database.prepare('SELECT count(*) FROM orders').pluck().get()).toBe(1)
    expect(limiter.consume('ann').remaining).toBe(1)
  })
})

describe('sqliteStore', () => {
  it.each(QUICK)('closes a file that it has opened', () => {
    const file = newFile()
    const made = sqliteStore(file)
    on(made).consume('ann')
    expect(existsSync(`${file}-wal`)).toBe(true)
    made.close()
    expect(existsSync(`${file}-wal`)).toBe(false)
  })

  it.each(QUICK)('keeps its counts when it is opened again', () => {
    const file = newFile()
    for (const allowed of [true, true, false]) {
      const made = sqliteStore(file)
      expect(on(made).consume('ann').allowed).toBe(allowed)
      made.close()
    }
  })

  it.each(QUICK)('knows a file by its path, and a table by its name', () => {
    const file = newFile()
    const places = [file, join(folder, '.', 'x', '..', file.slice(folder.length))].map((each) => store(each).place)
    expect(places[0]!.joins(places[1]!)).toBe(true)
    expect(places[0]!.name).toBe(`SQLite at ${file}, table "sluice"`)
    for (const other of [store(file, { table: 'other' }), store(newFile()), store(':memory:'), store(connect(file))])
      expect(places[0]!.joins(other.place)).toBe(false)
    expect(store(':memory:').place.joins(store(':memory:').place)).toBe(false)
  })

  it.each([
    ['', undefined, 'INVALID_OPTION'],
    ['a\0b', undefined, 'INVALID_OPTION'],
    [undefined, undefined, 'INVALID_OPTION'],
    [{ prepare: () => undefined }, undefined, 'INVALID_OPTION'],
    [':memory:', { table: '' }, 'INVALID_OPTION'],
    [':memory:', { timeout: 0 }, 'INVALID_OPTION'],
    [':memory:', { clock: {} }, 'INVALID_OPTION'],
    [':memory:', { file: 'x' }, 'UNKNOWN_OPTION'],
  ])('refuses %j with %j', (file, options, code) => {
    expect(() => sqliteStore(file as string, options as SqliteStoreOptions)).toThrow(expect.objectContaining({ code }))
  })

  it.each(QUICK)('reads own options', () => {
    for (const name of ['clock', 'table', 'timeout']) {
      Reflect.defineProperty(Object.prototype, name, { value: 'polluted', configurable: true, writable: true })
      try {
        expect(sqliteStore(':memory:').close()).toBeUndefined()
      } finally {
        Reflect.deleteProperty(Object.prototype, name)
      }
    }
  })

  // As those of sqlite3, which answer callbacks, and of sqlite. With the first, nothing was counted.
  it.each(QUICK)('refuses a database that does not answer at once', () => {
    const statement = { get: () => statement, run: () => statement }
    for (const prepare of [() => statement, () => ({ get: async () => ({ 1: 1 }) }), async () => statement]) {
      const later = { prepare, exec: () => undefined, close: () => undefined }
      expect(() => sqliteStore(later as unknown as Database.Database)).toThrow(
        expect.objectContaining({ code: 'INVALID_OPTION', message: expect.stringContaining('better-sqlite3') }),
      )
    }
  })

  it.each(QUICK)('uses a database whose numbers are BigInts', () => {
    const database = connect(newFile()).defaultSafeIntegers()
    expect([true, true, true].map(() => on(store(database)).consume('ann').allowed)).toEqual([true, true, false])
  })

  it.each(QUICK)('uses a database that returns null for no row, as bun:sqlite does', () => {
    const database = connect(newFile())
    const nullable = {
      exec: (text: string) => database.exec(text),
      close: () => database.close(),
      prepare(text: string) {
        const statement = database.prepare(text)
        const get = (...values: unknown[]): unknown => statement.get(...values) ?? null
        return statement.reader ? { get, run: get } : { get, run: (...values: unknown[]) => statement.run(...values) }
      },
    }
    const limiter = on(store(nullable as unknown as Database.Database))
    expect([1, 2, 3].map(() => limiter.consume('ann').allowed)).toEqual([true, true, false])
  })

  it.each(QUICK)('says why a closed database fails', () => {
    const database = connect(newFile())
    database.close()
    expect(() => sqliteStore(database)).toThrow(
      expect.objectContaining({ code: 'STORE_FAILED', message: expect.stringContaining('not open') }),
    )
  })

  it.each(QUICK)('says what to install', { timeout: long }, async () => {
    const elsewhere = join(folder, 'alone')
    cpSync(built, elsewhere, { recursive: true })
    // Packages are also looked for from the program.
    const program = join(elsewhere, 'worker.mjs')
    cpSync(WORKER, program)
    const error = await printed(start('openWithout', newFile(), { package: elsewhere }, { program }))
    expect(error).toMatchObject({
      code: 'MISSING_PACKAGE',
      message: expect.stringContaining('npm install better-sqlite3'),
    })
  })
})
