import Database from 'better-sqlite3'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createPool } from 'mysql2/promise'
import { Pool } from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLimiter, gcra, type Limiter, slidingWindowLog } from '../../src/index.ts'
import { EXIT } from '../../src/cli/print.ts'
import type { Row } from '../../src/cli/top/command.ts'
import type { Held } from '../../src/stores/held.ts'
import { mysqlStore, mysqlTable } from '../../src/stores/mysql.ts'
import { postgresStore, postgresTable } from '../../src/stores/postgres.ts'
import { sqliteStore } from '../../src/stores/sqlite.ts'
import type { AsyncStore, Store } from '../../src/stores/store.ts'
import { CommandLine } from '../support/command-line.ts'
import { startMysql } from '../support/mysql.ts'
import { startPostgres } from '../support/postgres.ts'

/** A database of one kind, for tests of the command line. */
interface World {
  readonly url: string
  store(table: string): Store
  /** Runs a statement. */
  query(text: string): Promise<unknown>
  /** Returns the statement that damages the row of a key. */
  damage(table: string, key: string): string
  remove(): Promise<void>
}

async function postgres(): Promise<World> {
  const server = await startPostgres()
  const pool = new Pool({ connectionString: server.url })
  return {
    url: server.url,
    store: (table): AsyncStore => postgresStore(pool, { table, timeout: '5s' }),
    query: (text) => pool.query(text),
    damage: (table, key) =>
      `UPDATE "${table.replaceAll('"', '""')}" SET state = '\\x01020304' WHERE position('${key}' IN encode(key, 'escape')) > 0`,
    async remove() {
      await pool.end()
      await server.remove()
    },
  }
}

let cli: CommandLine
beforeAll(() => {
  cli = new CommandLine()
})
afterAll(() => cli.remove())

const limits = [
  gcra({ quota: 5, window: '1h', name: 'fast' }),
  slidingWindowLog({ quota: 100, window: '1d', name: 'slow' }),
]
const keyer = (key: string): string => key
function limiterIn(store: Store): Limiter<string> {
  return createLimiter<string>({ name: 'api', keyer, limits, store })
}

async function mysql(): Promise<World> {
  const server = await startMysql()
  const pool = createPool({ uri: server.url })
  return {
    url: server.url,
    store: (table): AsyncStore => mysqlStore(pool, { table, timeout: '5s' }),
    query: (text) => pool.query(text),
    damage: (table, key) => `UPDATE \`${table}\` SET state = x'01020304' WHERE \`key\` LIKE '%${key}%'`,
    async remove() {
      await pool.end()
      await server.remove()
    },
  }
}

async function sqlite(): Promise<World> {
  const file = join(mkdtempSync(join(tmpdir(), 'sluice-cli-')), 'limits.db')
  const database = new Database(file)
  database.pragma('journal_mode = WAL')
  return {
    url: `sqlite:${file}`,
    store: (table) => sqliteStore(file, { table, timeout: '5s' }),
    query: async (text) => database.exec(text),
    damage: (table, key) => `UPDATE "${table.replaceAll('"', '""')}" SET state = x'01020304' WHERE key LIKE '%${key}%'`,
    async remove() {
      database.close()
      rmSync(dirname(file), { recursive: true })
    },
  }
}

describe.each([
  { kind: 'sqlite', open: sqlite },
  { kind: 'postgres', open: postgres, create: postgresTable },
  { kind: 'mysql', open: mysql, create: mysqlTable },
])('the command line with $kind', { timeout: 60_000 }, ({ kind, open, create }) => {
  let world: World
  const table = 'my "limits"'
  const here = ['--table', table]
  beforeAll(async () => {
    world = await open()
    if (create !== undefined) await world.query(create({ table }))
  })
  afterAll(() => world.remove())

  it('inspects and resets a key', async () => {
    const limiter = limiterIn(world.store(table))
    for (let i = 0; i < 3; i++) await limiter.consume('ann')
    const found = JSON.parse(await cli.output('inspect', world.url, 'api', 'ann', '--json', ...here)) as object
    expect(found).toMatchObject({
      key: '["api","ann"]',
      limits: [
        { limit: 'fast', quota: 5, used: 3, remaining: 2, algorithm: 'gcra' },
        { limit: 'slow', quota: 100, used: 3, remaining: 97, algorithm: 'slidingWindowLog' },
      ],
    })
    expect(await cli.output('inspect', world.url, 'api', 'ann', ...here)).toMatch(/fast +5 +3 +2 +\d.* gcra/)
    expect(await cli.output('reset', world.url, 'api', 'ann', ...here)).toBe('["api","ann"]: deleted\n')
    expect((await limiter.consume('ann')).remaining).toBe(4)
    expect(await cli.output('reset', world.url, 'api', 'nobody', ...here)).toContain('no state was stored')
  })

  it('inspects a key of which only a lock-out is left', async () => {
    const limiter = limiterIn(world.store(table))
    await limiter.key('locked').block('1h')
    const inspected = await cli.output('inspect', world.url, 'api', 'locked', '--json', ...here)
    const { limits: found } = JSON.parse(inspected) as Held
    expect(found).toHaveLength(2)
    for (const { lockedFor } of found) expect(lockedFor).toBeGreaterThan(3_500_000)
  })

  it('lists the keys with the largest share of a limit first, and the limiters that have keys', async () => {
    const limiter = limiterIn(world.store(table))
    for (let i = 0; i < 4; i++) await limiter.consume('bob')
    await limiter.consume('cat\n')
    const rows = JSON.parse(await cli.output('top', world.url, '--json', '--limiter', 'api', ...here)) as Row[]
    const fast = rows.filter(({ limit, lockedFor }) => limit === 'fast' && lockedFor === 0)
    expect(fast.map(({ key, used }) => [key, used])).toEqual([
      ['bob', 4],
      ['ann', 1],
      ['cat\n', 1],
    ])
    const said = await cli.output('inspect', world.url, 'apy', 'bob', ...here)
    expect(said).toContain('Did you mean "api"?')
  })

  it('resets a key whose row is damaged', async () => {
    const limiter = limiterIn(world.store(table))
    await limiter.consume('hurt')
    await world.query(world.damage(table, 'hurt'))
    await expect((async () => limiter.consume('hurt'))()).rejects.toMatchObject({ code: 'DAMAGED_ROW' })
    const { code, error } = await cli.run(['inspect', world.url, 'api', 'hurt', ...here])
    expect([code, error]).toEqual([EXIT.failed, expect.stringContaining('damaged')])
    expect(await cli.output('reset', world.url, 'api', 'hurt', ...here)).toContain('deleted')
    expect((await limiter.consume('hurt')).allowed).toBe(true)
  })

  if (create === undefined) return

  it('prints the statement that creates the table, and creates it', async () => {
    const printed = await cli.output('migrate', kind, '--table', 'printed')
    await world.query(printed)
    await limiterIn(world.store('printed')).consume('ann')
    expect(await cli.output('migrate', world.url, '--apply', '--table', 'made')).toContain('exists')
    expect(await cli.output('migrate', world.url, '--apply', '--table', 'made')).toContain('exists')
    await limiterIn(world.store('made')).consume('ann')
  })

  it('says that the table is missing, and how to create it', async () => {
    const { code, error } = await cli.run(['inspect', world.url, 'api', 'ann', '--table', 'nowhere'])
    expect(code).toBe(EXIT.failed)
    expect(error).toContain(`npx sluice migrate ${kind}://… --apply`)
    await expect(limiterIn(world.store('nowhere')).consume('ann')).rejects.toThrow(/does not exist.*npx sluice migrate/)
  })

  it('shows no password when there is no server', async () => {
    const url = world.url.replace(/\/\/.*@.*:\d+/, '//ann:secret@127.0.0.1:1')
    const { code, error } = await cli.run(['top', url, '--once'])
    expect(code).toBe(EXIT.failed)
    expect(error).toContain('ECONNREFUSED')
    expect(error).not.toContain('secret')
  })
})

it('the command line does not create a file of SQLite', async () => {
  const { code, error } = await cli.run(['top', 'sqlite:nowhere.db', '--once'])
  expect([code, error]).toEqual([EXIT.failed, expect.stringContaining('There is no file "nowhere.db"')])
})

describe('sluice migrate', () => {
  it.each([
    [['mongo'], 'expected postgres'],
    [[], 'expected a database or a URL'],
    [['postgres', '--apply'], 'expected a URL such as postgres://'],
    [['redis://localhost'], 'expected postgres'],
    [['sqlite'], 'expected postgres, mysql'],
    [['mysql', '--unlogged'], 'only PostgreSQL'],
  ])('refuses %o', async (words, reason) => {
    const { code, error } = await cli.run(['migrate', ...words])
    expect([code, error]).toEqual([EXIT.misused, expect.stringContaining(reason)])
  })

  it('creates an unlogged table', async () => {
    expect(await cli.output('migrate', 'postgres', '--unlogged', '--schema', 'a"b')).toContain(
      'CREATE UNLOGGED TABLE IF NOT EXISTS "a""b"."sluice"',
    )
  })
})
