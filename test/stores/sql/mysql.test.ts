import type { EventEmitter } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { createConnection, createPool as createCallbackPool, type PoolOptions, type RowDataPacket } from 'mysql2'
import { createPool, type Pool, type PoolConnection } from 'mysql2/promise'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type Clock, fixedWindow, guard, type Limiter, perHour, stack, type Store } from '../../../src/index.ts'
import {
  type MysqlConnection,
  mysqlDatabase,
  type MysqlPool,
  mysqlStore,
  type MysqlStoreOptions,
  mysqlTable,
} from '../../../src/stores/mysql.ts'
import { storeBehaviours } from '../../../src/testing.ts'
import { Proxy } from '../../support/faults/proxy.ts'
import { afterTest } from '../../support/after-test.ts'
import { runProcesses } from '../../support/racing-processes.ts'
import { keyed } from '../../support/limiters.ts'
import { mysqlForAll } from '../../support/sql-tests.ts'
import { unhandled } from '../../support/unhandled.ts'

const database = mysqlForAll()

const clients = [
  {
    name: 'mysql2/promise',
    open: () => {
      const client = createPool(database.server.url)
      return { client, end: () => client.end() }
    },
  },
  {
    name: 'mysql2 with multipleStatements',
    open: () => {
      const client = createCallbackPool({ uri: database.server.url, multipleStatements: true })
      return { client, end: () => client.promise().end() }
    },
  },
]

describe.each(clients)('mysqlStore with $name', ({ name, open }) => {
  const table = `limits of \`${name}\``
  let world: ReturnType<typeof open>
  beforeAll(() => void (world = open()))
  afterAll(() => world.end())

  const make = async (clock: Clock): Promise<Store> => {
    const own = await database.newTable(`${table} ${crypto.randomUUID().slice(0, 8)}`)
    return mysqlStore(world.client, { table: own, clock, timeout: '5s' })
  }
  // equality.test.ts has a longer search.
  for (const { name: behaviour, run } of storeBehaviours(make, { runs: 20 })) it(behaviour, { timeout: 60_000 }, run)
})

/** A pool of the server, and a table of its own. */
interface World<Client = Pool> {
  readonly pool: Client
  readonly table: string
}

async function world(options: PoolOptions = {}, { server, newTable } = database): Promise<World> {
  const pool = createPool({ uri: server.url, ...options })
  afterTest(() => pool.end())
  return { pool, table: await newTable(`rows ${crypto.randomUUID()}`) }
}

/** A proxy in front of the server, and the address of the server behind it. */
async function proxied(): Promise<{ proxy: Proxy; uri: string }> {
  const proxy = (await Proxy.listen()).to(database.server.port)
  afterTest(() => proxy.close())
  return { proxy, uri: `mysql://sluice@127.0.0.1:${proxy.port}/shop` }
}

function limiterOn(
  { pool, table }: World<Pool | MysqlPool>,
  quota = 100,
  options: MysqlStoreOptions = {},
): Limiter<string> {
  return keyed(mysqlStore(pool, { table, timeout: '10s', ...options }), perHour(quota))
}

async function rowsOf(pool: Pool, text: string): Promise<RowDataPacket[]> {
  return (await pool.query<RowDataPacket[]>(text))[0]
}

/** Returns how many deadlocks the server has ended. */
async function deadlocksOf(pool: Pool): Promise<number> {
  const text = database.server.isMariaDB
    ? "SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'"
    : "SELECT COUNT AS Value FROM information_schema.INNODB_METRICS WHERE NAME = 'lock_deadlocks'"
  return Number((await rowsOf(pool, text))[0]!['Value'])
}

async function send(
  connection: MysqlConnection,
  query: Parameters<MysqlConnection['query']>[0],
  answer: Parameters<MysqlConnection['query']>[1],
  sql: Promise<string> | string,
): Promise<void> {
  connection.query({ ...query, sql: await sql }, answer)
}

/** The pool with `before` in front of each query. It returns the statement to send. */
function watched(pool: Pool, before: (sql: string, id: number) => Promise<string> | string): MysqlPool {
  return {
    promise: () => pool,
    getConnection: (callback) =>
      pool.pool.getConnection((error, given) => {
        if (error) return callback(error, undefined as never)
        const connection: MysqlConnection = given
        callback(null, {
          config: given.config,
          query: (query, answer) => void send(connection, query, answer, before(query.sql, given.threadId)),
          on: (event, listener) => connection.on(event, listener),
          off: (event, listener) => connection.off(event, listener),
          listeners: (event) => connection.listeners(event),
          release: () => connection.release(),
          destroy: () => connection.destroy(),
        })
      }),
  }
}

/** Locks the row of a key, and keeps it until the returned function is called. */
async function locked({ pool, table }: World, key: string): Promise<PoolConnection> {
  const connection = await pool.getConnection()
  await connection.query('SET TRANSACTION ISOLATION LEVEL READ COMMITTED')
  await connection.query('START TRANSACTION')
  await connection.query(`SELECT 1 FROM \`${table}\` WHERE \`key\` = ? FOR UPDATE`, [recordKey(key)])
  return connection
}

/** Waits for the step of the sweeper that the first decision of a store starts. The next one begins a second later. */
function swept(): Promise<void> {
  return pause(100)
}

function recordKey(key: string, limiter = 'test'): string {
  return JSON.stringify([limiter, key])
}

describe('processes that share a table', { timeout: 120_000 }, () => {
  it('admit exactly the quotas of many keys and of a limit that all share, and never wait for each other in a circle', async () => {
    const { pool, table } = await world()
    const before = await deadlocksOf(pool)
    const limits = (quota: number): object[] => [{ algorithm: 'fixedWindow', quota, window: '1000d', anchor: 'first' }]
    // All of them are new. Half of them have another order as bytes than as characters of UTF-16.
    const keys = Array.from({ length: 41 }, (_, i) => `${i % 2 === 0 ? '\u{1F600}' : '\uFFFD'}${i * 31}`)
    const store = { kind: 'mysql', url: database.server.url, table } as const
    const race = { members: [{ name: 'each', limits: limits(7) }], keys, asks: 300, inFlight: 100 }
    const each = await runProcesses(3, store, race)
    expect(each).toEqual(Object.fromEntries(keys.map((key) => [key, 7])))
    const members = [
      { name: 'both', limits: limits(7) },
      { name: 'all', key: 'all', limits: limits(150) },
    ]
    const url = `${database.server.url}?multipleStatements=true`
    const both = await runProcesses(3, { ...store, url }, { ...race, members, asks: 200 })
    expect(Object.values(both).reduce((sum, count) => sum + count, 0)).toBe(150)
    for (const count of Object.values(both)) expect(count).toBeLessThanOrEqual(7)
    expect(await deadlocksOf(pool)).toBe(before)
  })
})

describe('a transaction that waits for locks', () => {
  it('is repeated after a deadlock', async () => {
    const here = await world()
    const store = mysqlStore(here.pool, { table: here.table, timeout: '10s' })
    const both = stack(...['first', 'second'].map((name) => keyed(store, perHour(10), name)))
    await both.consume('ann')
    const before = await deadlocksOf(here.pool)
    // The other transaction has written more, so the server ends the one of the store.
    const other = await here.pool.getConnection()
    await other.query('CREATE TABLE heavy (id INT PRIMARY KEY) ENGINE = InnoDB')
    await other.query('START TRANSACTION')
    await other.query('INSERT INTO heavy VALUES ?', [Array.from({ length: 1000 }, (_, i) => [i])])
    const lock = `SELECT 1 FROM \`${here.table}\` WHERE \`key\` = ? FOR UPDATE`
    await other.query(lock, [recordKey('ann', 'second')])
    const decision = both.consume('ann')
    await pause(200)
    await other.query(lock, [recordKey('ann', 'first')])
    await other.query('COMMIT')
    other.release()
    expect(await decision).toMatchObject({ allowed: true, remaining: 8 })
    expect(await deadlocksOf(here.pool)).toBe(before + 1)
  })

  it('is repeated after the time-out of the lock', async () => {
    const here = await world()
    const limiter = limiterOn(here)
    here.pool.on('connection', (connection) => void connection.query('SET SESSION innodb_lock_wait_timeout = 1'))
    await limiter.consume('ann')
    const other = await locked(here, 'ann')
    const decision = limiter.consume('ann')
    await pause(1500)
    await other.query('COMMIT')
    other.release()
    expect(await decision).toMatchObject({ allowed: true, remaining: 98 })
  })

  it('is repeated after a conflict with another node of a cluster, which MySQL reports by COMMIT', async () => {
    const here = await world()
    await limiterOn(here).consume('ann')
    let conflicts = 0
    const pool = watched(here.pool, (sql) =>
      sql.startsWith('COMMIT AND NO') && conflicts++ === 0 ? "SIGNAL SQLSTATE '40000' SET MYSQL_ERRNO = 3101" : sql,
    )
    expect(await limiterOn({ ...here, pool }).consume('ann')).toMatchObject({ allowed: true, remaining: 98 })
    expect(conflicts).toBe(2)
  })

  it('is given up after so many attempts', async () => {
    const here = await world()
    await limiterOn(here).consume('ann')
    let attempts = 0
    const pool = watched(here.pool, (sql) => {
      if (!sql.includes('FOR UPDATE')) return sql
      attempts++
      return "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213"
    })
    const limiter = limiterOn({ ...here, pool })
    await expect(limiter.consume('ann')).rejects.toMatchObject({ code: 'STORE_BUSY', cause: { errno: 1213 } })
    expect(attempts).toBe(6)
  })
})

describe('a connection that is lost', () => {
  const lost = { code: 'STORE_FAILED', cause: { message: expect.stringContaining('may have been charged') as string } }

  it('ends no process while it is idle, or between two statements, and half of a transaction changes nothing', async () => {
    const errors = unhandled()
    const here = await world({ connectionLimit: 3 })
    const admin = (await world()).pool
    const steps = [/^SET TRANSACTION/, /^START TRANSACTION/, /FOR UPDATE$/, /INSERT INTO/, /^COMMIT AND NO/]
    const limits = perHour(100)
    let step: RegExp | undefined
    const pool = watched(here.pool, async (sql, id) => {
      if (step?.test(sql) === true) {
        step = undefined
        await admin.query(`KILL ${id}`)
        await pause(50)
      }
      return sql
    })
    const store = mysqlStore(pool, { table: here.table, timeout: '10s' })
    const [ann, all] = ['ann', 'all'].map((name) => keyed(store, limits, name))
    const both = stack(ann!, all!)
    await both.consume('ann')
    await swept()
    for (step of steps) {
      await expect(both.consume('ann')).rejects.toMatchObject({ code: 'STORE_FAILED' })
      expect(step).toBe(undefined)
    }
    for (const limiter of [ann!, all!]) expect((await limiter.peek('ann', { cost: 0 })).limits[0]!.remaining).toBe(99)
    const ids = await rowsOf(admin, "SELECT id FROM information_schema.processlist WHERE command = 'Sleep'")
    const own = await rowsOf(admin, 'SELECT CONNECTION_ID() AS id')
    for (const { id } of ids) if (id !== own[0]!['id']) await admin.query(`KILL ${id}`).catch(() => undefined)
    await pause(50)
    expect(await both.consume('ann')).toMatchObject({ remaining: 98 })
    expect(errors).toEqual([])
  })

  it('may report more than one error', async () => {
    const errors = unhandled()
    const here = await world({ connectionLimit: 1 })
    const connections: Pick<EventEmitter, 'emit' | 'listenerCount'>[] = []
    here.pool.on('connection', (connection) => void connections.push(connection))
    const pool = watched(here.pool, (sql) => {
      // The pool listens to one. MySQL 8 sends an error before it closes a connection, and the network reports another one.
      for (let i = 0; i < 2; i++) connections.at(-1)?.emit('error', new Error('lost'))
      return sql
    })
    expect((await limiterOn({ ...here, pool }).consume('ann')).allowed).toBe(true)
    expect(connections.map((each) => each.listenerCount('error'))).toEqual(connections.map(() => 1))
    expect(errors).toEqual([])
  })

  it.each([false, true])(
    'during COMMIT says that the request may have been charged, multipleStatements %s',
    async (multipleStatements) => {
      const { proxy, uri } = await proxied()
      const here = await world({ uri, multipleStatements })
      let mode: 'cut' | 'lose' | undefined
      let commits = 0
      const pool = watched(here.pool, (sql) => {
        if (!sql.endsWith('COMMIT AND NO CHAIN NO RELEASE') || sql.includes('READ ONLY')) return sql
        commits++
        if (mode !== undefined) proxy.set(mode)
        return sql
      })
      const limiter = limiterOn({ ...here, pool }, 100, { timeout: 200 })
      await limiter.consume('ann')
      await swept()
      commits = 0
      mode = 'cut'
      await expect(limiter.consume('ann')).rejects.toMatchObject(lost)
      expect(commits).toBe(1)
      proxy.set('pass')
      mode = undefined
      // MySQL sends the reply of each statement by itself. If it cannot send one, it does not come to the COMMIT.
      const { remaining } = (await limiter.peek('ann', { cost: 0 })).limits[0]!
      expect(database.server.isMariaDB || !multipleStatements ? [98] : [98, 99]).toContain(remaining)
      commits = 0
      mode = 'lose'
      await expect(limiter.consume('ann')).rejects.toMatchObject(lost)
      expect(commits).toBe(1)
      proxy.set('pass')
      mode = undefined
      expect(await limiter.consume('ann')).toMatchObject({ remaining: remaining - 1 })
    },
  )

  it('is noticed when a network swallows packets, and its locks end', async () => {
    const { proxy, uri } = await proxied()
    const here = await world({ uri })
    const limiter = limiterOn(here, 100, { timeout: 200 })
    await limiter.consume('ann')
    proxy.set('lose')
    await expect(limiter.consume('ann')).rejects.toMatchObject({
      code: 'STORE_FAILED',
      cause: { message: 'no answer within 1200 ms' },
    })
    proxy.set('pass')
    expect(await limiter.consume('ann')).toMatchObject({ remaining: 98 })
  })

  it('is replaced when a network has forgotten all that the store keeps', { timeout: 60_000 }, async () => {
    const { proxy, uri } = await proxied()
    const here = await world({ uri })
    const limiter = limiterOn(here, 100, { timeout: 1000 })
    proxy.set('pass', 30)
    /** Decides on both connections: decisions of one moment share a transaction. */
    const decideOnBoth = async (): Promise<PromiseSettledResult<unknown>[]> => {
      const first = limiter.consume('ann')
      await pause(10)
      return Promise.allSettled([first, limiter.consume('ben')])
    }
    const done = { status: 'fulfilled' }
    expect(await decideOnBoth()).toMatchObject([done, done])
    proxy.forget()
    const lost = { status: 'rejected', reason: { cause: { message: 'no answer within 2000 ms' } } }
    expect(await decideOnBoth()).toMatchObject([lost, lost])
    expect(await limiter.consume('ann')).toMatchObject({ remaining: 98 })

    expect(await decideOnBoth()).toMatchObject([done, done])
    proxy.forget()
    // Idle ones go back to the pool after five seconds, which takes two more without an answer.
    await pause(8000)
    expect(await limiter.consume('ann')).toMatchObject({ remaining: 96 })
  })

  it('that comes too late from the pool goes back to it', async () => {
    const here = await world({ connectionLimit: 1 })
    const limiter = limiterOn(here, 100, { timeout: 1 })
    const held = await here.pool.getConnection()
    const { threadId } = held
    await expect(limiter.consume('ann')).rejects.toMatchObject({ cause: { message: 'no answer within 1001 ms' } })
    held.release()
    await pause(50)
    const again = await here.pool.getConnection()
    expect(again.threadId).toBe(threadId)
    again.release()
  })
})

describe('the server', () => {
  const other = mysqlForAll('--sysdate-is-now', '--default-time-zone=-11:30', '--log-bin=binlog', '--server-id=1')

  it.each([
    ['as it is', database],
    ['with --sysdate-is-now', other],
  ])('says what time it is after the locks: %s', { timeout: 60_000 }, async (_name, from) => {
    for (const zone of ['+00:00', '-09:30', '+13:00']) {
      const here = await world({}, from)
      here.pool.on('connection', (connection) => void connection.query(`SET SESSION time_zone = '${zone}'`))
      const { transact } = mysqlDatabase(here.pool, { table: here.table, timeout: '10s' })
      const key = recordKey('ann')
      const write = (_: unknown, now: number) => ({
        writes: [{ key, row: new Uint8Array(1), expiresAt: now / 1000 + 60_000 }],
        result: now,
      })
      const first = await transact([key], write, { readOnly: false })
      expect(Math.abs(first / 1000 - Date.now())).toBeLessThan(5000)
      const rival = await locked(here, 'ann')
      const second = transact([key], write, { readOnly: false })
      await pause(200)
      const released = Date.now()
      await rival.query('COMMIT')
      rival.release()
      // The server runs on this machine, so it has the same clock.
      expect(await second).toBeGreaterThanOrEqual(released * 1000)
      const peeked = await transact([key], (_, now) => ({ writes: [], result: now }), { readOnly: true })
      expect(peeked).toBeGreaterThanOrEqual(await second)
    }
  })

  it('has no sessions left behind while COMMIT waits for a replica that is gone', { timeout: 60_000 }, async () => {
    const setReplica = async (isGone: boolean): Promise<void> => {
      const settings = ['timeout = 60000', 'wait_no_slave = ON', `enabled = ${isGone}`]
      for (const each of settings) await other.admin.query(`SET GLOBAL rpl_semi_sync_master_${each}`)
    }
    afterTest(() => setReplica(false))
    const { pool, table } = await world({ multipleStatements: true }, other)
    const pools = [pool, (await world({}, other)).pool]
    const states: string[] = []
    const limiters = pools.map((each) =>
      keyed(guard(mysqlStore(each, { table }), { onChange: ({ state }) => states.push(state) }), perHour(100)),
    )
    for (const limiter of limiters) await limiter.consume('first')
    await setReplica(true)
    const counts: number[] = []
    for (let i = 0; i < 20; i++) {
      await Promise.all(limiters.map((limiter, k) => limiter.consume(`${i} ${k}`)))
      counts.push(
        (await rowsOf(other.admin, "SELECT 1 FROM information_schema.processlist WHERE info LIKE 'COMMIT%'")).length,
      )
      await pause(200)
    }
    // Each store keeps two connections, and a session that is being ended.
    expect(Math.max(...counts)).toBeLessThanOrEqual(6)
    expect(states).toEqual(['away', 'away'])
    await setReplica(false)
    await vi.waitFor(() => expect(states).toEqual(['away', 'away', 'healthy', 'healthy']), 10_000)
  })

  it('may change its time zone while a statement waits', async () => {
    const here = await world()
    // One hour more for SYSDATE: as in a session whose summer time begins.
    const pool = watched(here.pool, (sql) => sql.replace('SYSDATE(6)', 'SYSDATE(6) + INTERVAL 1 HOUR'))
    await limiterOn({ ...here, pool }).consume('ann')
    const found = await rowsOf(here.pool, `SELECT expires_at FROM \`${here.table}\``)
    expect(Math.abs(Number(found[0]!['expires_at']) - Date.now())).toBeLessThan(120_000)
  })
})

describe('rows', () => {
  it('of 4 MiB are written together, and a deleted one is gone', { timeout: 60_000 }, async () => {
    for (const multipleStatements of [false, true]) {
      const here = await world({ multipleStatements })
      const { transact } = mysqlDatabase(here.pool, { table: here.table, timeout: '10s' })
      const keys = ['a', 'b', 'c', 'd']
      const expiresAt = Date.now() + 60_000
      const rowOf = (i: number): Uint8Array => new Uint8Array(4 << 20).fill(i + 1)
      const writes = keys.map((key, i) => ({ key, row: rowOf(i), expiresAt }))
      await transact(keys, () => ({ writes, result: undefined }), { readOnly: false })
      const found = await transact(keys, (rows) => ({ writes: [], result: rows }), { readOnly: true })
      found.forEach((row, i) => expect(Buffer.from(row!).equals(rowOf(i))).toBe(true))
      const gone = [{ key: 'b', row: undefined, expiresAt: 0 }]
      await transact(['b'], () => ({ writes: gone, result: undefined }), { readOnly: false })
      expect(await transact(['b'], ([row]) => ({ writes: [], result: row }), { readOnly: true })).toBe(undefined)
    }
  })

  it(
    'of many keys are written together on a server with small packets, and a row that does not fit fails alone',
    { timeout: 60_000 },
    async () => {
      const [{ size }] = (await rowsOf(database.admin, 'SELECT @@GLOBAL.max_allowed_packet AS size')) as [
        { size: number },
      ]
      await database.admin.query(`SET GLOBAL max_allowed_packet = ${1 << 20}`)
      afterTest(() => database.admin.query(`SET GLOBAL max_allowed_packet = ${size}`))
      for (const multipleStatements of [false, true]) {
        const here = await world({ multipleStatements })
        const rows = mysqlDatabase(here.pool, { table: here.table, timeout: '10s' })
        const keys = Array.from({ length: 256 }, (_, i) => `key ${i}`)
        const writes = keys.map((key) => ({ key, row: new Uint8Array(5000).fill(1), expiresAt: Date.now() + 60_000 }))
        await rows.transact(keys, () => ({ writes, result: undefined }), { readOnly: false })
        expect(await rows.size()).toBe(256)
        const store = (length: number): unknown =>
          rows.transact(
            ['large'],
            () => ({ writes: [{ ...writes[0]!, key: 'large', row: new Uint8Array(length) }], result: 'stored' }),
            { readOnly: false },
          )
        const tooLarge = { code: 'STORE_REJECTED', message: expect.stringContaining('max_allowed_packet') as string }
        for (const length of [600_000, 900_000]) await expect(store(length)).rejects.toMatchObject(tooLarge)
        expect(await store(520_000)).toBe('stored')
      }
    },
  )

  it('that are expired are swept while decisions go on, and no other row', { timeout: 60_000 }, async () => {
    const here = await world()
    const now = Date.now()
    const fill = (from: number, to: number, expiresAt: number): Promise<unknown> =>
      here.pool.query(`INSERT INTO \`${here.table}\` VALUES ?`, [
        Array.from({ length: to - from }, (_, i) => [`["other","${10_000 + from + i}"]`, 'x'.repeat(93), expiresAt]),
      ])
    // A step of the sweeper looks at 5,000 rows.
    await fill(0, 3000, now - 10_000_000)
    await fill(3000, 9000, now + 10_000_000)
    await fill(9000, 12_000, now - 10_000_000)
    const deadlocks = await deadlocksOf(here.pool)
    const limits = fixedWindow({ quota: 1_000_000, window: '1000d', anchor: 'first' })
    const [limiter, other] = [1, 2].map(() =>
      keyed(mysqlStore(here.pool, { table: here.table, timeout: '10s' }), limits),
    ) as [Limiter<string>, Limiter<string>]
    let decisions = 0
    const count = async (): Promise<number> =>
      Number((await rowsOf(here.pool, `SELECT COUNT(*) AS count FROM \`${here.table}\``))[0]!['count'])
    for (const end = performance.now() + 30_000; (await count()) > 6050 && performance.now() < end;)
      for (let i = 0; i < 50; i++) {
        const key = String(decisions++ % 50)
        for (const { allowed } of await Promise.all([limiter.consume(key), other.consume(key)]))
          expect(allowed).toBe(true)
      }
    expect(await count()).toBe(6050)
    const left = await rowsOf(here.pool, `SELECT COUNT(*) AS count FROM \`${here.table}\` WHERE expires_at > ${now}`)
    expect(Number(left[0]!['count'])).toBe(6050)
    expect(await deadlocksOf(here.pool)).toBe(deadlocks)
    expect((await limiter.peek('0', { cost: 0 })).limits[0]!.used).toBe(decisions / 25)
  })

  it('that a transaction has locked are not waited for by the sweeper', async () => {
    const here = await world()
    const values = ['ann', 'bob'].map((key) => `('${recordKey(key)}', NULL, 0)`)
    await here.pool.query(`INSERT INTO \`${here.table}\` VALUES ${values.join()}`)
    const other = await locked(here, 'ann')
    await limiterOn(here).consume('zoe')
    await swept()
    const keys = async (): Promise<string[]> =>
      (await rowsOf(here.pool, `SELECT CAST(\`key\` AS CHAR) AS name FROM \`${here.table}\` ORDER BY name`)).map(
        ({ name }) => String(name),
      )
    expect(await keys()).toEqual([recordKey('ann'), recordKey('zoe')])
    await other.query('COMMIT')
    other.release()
    await limiterOn(here).consume('zoe')
    await swept()
    expect(await keys()).toEqual([recordKey('zoe')])
  })

  it('that count, and gaps between rows, are not locked by the sweeper', async () => {
    const here = await world()
    const admin = (await world()).pool
    admin.pool.on('connection', (connection) => connection.query('SET SESSION innodb_lock_wait_timeout = 1'))
    const table = `\`${here.table}\``
    await admin.query(`INSERT INTO ${table} VALUES ('a', NULL, 0), ('c', NULL, ${Date.now() + 60_000}), ('e', NULL, 0)`)
    const locks: Promise<unknown>[] = []
    const pool = watched(here.pool, (sql) => {
      if (sql.startsWith('DELETE')) {
        locks.push(admin.query(`SELECT 1 FROM ${table} WHERE \`key\` = 'c' FOR UPDATE NOWAIT`))
        locks.push(admin.query(`INSERT INTO ${table} VALUES ('d', NULL, ${Date.now() + 60_000})`))
      }
      return Promise.allSettled(locks).then(() => sql)
    })
    await limiterOn({ ...here, pool }).consume('zoe')
    for (let i = 0; i < 100 && locks.length === 0; i++) await pause(20)
    await Promise.all(locks)
    await swept()
    expect(await mysqlDatabase(here.pool, { table: here.table }).keysAfter('a', 9)).toEqual(['c', 'd'])
  })

  it('that are deleted whenever they are to be locked end in an error', async () => {
    const here = await world()
    const pool = watched(here.pool, async (sql) => {
      if (sql.includes('FOR UPDATE')) await here.pool.query(`DELETE FROM \`${here.table}\``)
      return sql
    })
    await expect(limiterOn({ ...here, pool }).consume('ann')).rejects.toMatchObject({
      code: 'STORE_FAILED',
      cause: { message: 'rows were deleted while they were locked' },
    })
  })
})

describe('the pool', () => {
  /** The session variables of the only connection without those of the last statement, and its open transactions. */
  async function settings(pool: Pool): Promise<Record<string, unknown>> {
    const all = await rowsOf(pool, 'SHOW SESSION VARIABLES')
    const changing =
      /^(timestamp|statement_id|rand_seed|insert_id|last_insert_id|identity|error_count|warning_count|last_gtid|gtid_)/
    const found = all.map(({ Variable_name: name, Value: value }) => [String(name), value] as const)
    const own =
      'SELECT COUNT(*) AS count FROM information_schema.INNODB_TRX WHERE trx_mysql_thread_id = CONNECTION_ID()'
    const transactions = Number((await rowsOf(pool, own))[0]!['count'])
    return { ...Object.fromEntries(found.filter(([name]) => !changing.test(name))), transactions }
  }

  it.each([false, true])('has the same settings afterwards, multipleStatements %s', async (multipleStatements) => {
    const here = await world({ connectionLimit: 1, multipleStatements })
    const before = await settings(here.pool)
    expect(before).toMatchObject({ autocommit: 'ON', transactions: 0 })
    const limiter = limiterOn(here, 100, { timeout: 40 })
    await limiter.consume('ann')
    await limiter.peek('ann')
    await limiter.reset('ann')
    await here.pool.query(`INSERT INTO \`${here.table}\` VALUES ('a', NULL, 0), (?, NULL, 0)`, [recordKey('bob')])
    await swept()
    expect(await settings(here.pool)).toEqual(before)
    const other = await locked({ ...(await world()), table: here.table }, 'ann')
    await expect(limiter.consume('ann')).rejects.toMatchObject({ code: 'STORE_BUSY' })
    other.destroy()
    expect(await settings(here.pool)).toEqual(before)
  })

  it('may have any settings', async () => {
    const here = await world({
      connectionLimit: 2,
      rowsAsArray: true,
      // Query options that are no function do not replace a function.
      typeCast: () => 'x',
      nestTables: '_',
      supportBigNumbers: true,
      bigNumberStrings: true,
      decimalNumbers: true,
      dateStrings: true,
      namedPlaceholders: true,
      charset: 'latin1',
    })
    const session = [
      "sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'",
      'autocommit = 0',
      'TRANSACTION ISOLATION LEVEL SERIALIZABLE',
      'TRANSACTION READ ONLY',
      "time_zone = '+05:45'",
      'sql_safe_updates = 1',
      'sql_select_limit = 1000000',
    ]
    here.pool.on('connection', (connection) => {
      for (const each of session) void connection.query(`SET SESSION ${each}`)
    })
    const limiter = limiterOn(here, 3)
    const keys = ['ann', 'Ann', 'ann ', 'änn', '\u{1F600}', "x'; DROP TABLE y; --", '\\', '"`?:a']
    for (const key of keys) {
      const allowed = await Promise.all([1, 2, 3, 4].map(async () => (await limiter.consume(key)).allowed))
      expect(allowed).toEqual([true, true, true, false])
    }
    await swept()
    // Users of the pool leave a transaction open.
    const open = await Promise.all([here.pool.getConnection(), here.pool.getConnection()])
    for (const connection of open) await connection.query('START TRANSACTION')
    for (const connection of open) connection.release()
    const other = limiterOn({ ...(await world()), table: here.table }, 3)
    for (const key of keys) {
      expect((await other.consume(key)).allowed).toBe(false)
      expect((await limiter.consume(key)).allowed).toBe(false)
    }
  })

  it.each(["completion_type = 'CHAIN'", "completion_type = 'RELEASE'", 'sql_select_limit = 1'])(
    'may have %s',
    async (setting) => {
      for (const multipleStatements of [true, false]) {
        const here = await world({ connectionLimit: 2, multipleStatements })
        here.pool.on('connection', (connection) => void connection.query(`SET SESSION ${setting}`))
        const limiter = limiterOn(here, 3)
        for (const allowed of [true, true, true, false]) {
          const all = await Promise.all(['a', 'b', 'c'].map((key) => limiter.consume(key)))
          expect(all.map((each) => each.allowed)).toEqual([allowed, allowed, allowed])
        }
      }
    },
  )

  it('lists and counts the keys of a table in transactions of its own, also without autocommit', async () => {
    const here = await world({ connectionLimit: 1 })
    here.pool.on('connection', (connection) => void connection.query('SET SESSION autocommit = 0'))
    const database = mysqlDatabase(here.pool, { table: here.table })
    expect(await database.size()).toBe(0)
    const limiter = limiterOn({ ...(await world()), table: here.table })
    for (const key of ['b', 'a', '\u{1F600}']) await limiter.consume(key)
    const records = ['a', 'b', '\u{1F600}'].map((key) => recordKey(key))
    expect(await database.size()).toBe(3)
    expect(await database.keysAfter('', 2)).toEqual(records.slice(0, 2))
    expect(await database.keysAfter(records[1]!, 2)).toEqual(records.slice(2))
  })

  it('counts in one place with and without promises', async () => {
    const here = await world()
    const limiter = limiterOn(here, 3)
    const store = mysqlStore(here.pool.pool, { table: here.table })
    expect(store.place).toBe(mysqlStore(here.pool, { table: here.table }).place)
    expect(store.place).not.toBe(mysqlStore(here.pool, { table: 'other' }).place)
    const same = keyed(store, perHour(3))
    await limiter.consume('ann')
    expect(await same.consume('ann')).toMatchObject({ remaining: 1 })
  })

  it('takes two trips for a decision with multipleStatements, and else five', async () => {
    for (const [multipleStatements, trips] of [
      [true, [3, 2]],
      [false, [9, 5]],
    ] as const) {
      const here = await world({ multipleStatements })
      const sent: string[] = []
      const pool = watched(here.pool, (sql) => {
        sent.push(sql)
        return sql
      })
      const limiter = limiterOn({ ...here, pool })
      // The first decision starts a step of the sweeper.
      await limiter.consume('bob')
      await swept()
      for (const expected of trips) {
        sent.length = 0
        await Promise.all([limiter.consume('ann'), limiter.consume('ann')])
        expect(sent.length).toBe(expected)
      }
    }
  })
})

describe('a mistake', () => {
  it.each([
    ['nothing', () => undefined],
    ['options', () => ({ host: 'localhost' })],
    ['a URL', () => 'mysql://root:secret@localhost/shop'],
    ['a pool of another package', () => ({ getConnection: async () => undefined })],
    ['a connection', () => createConnection({ uri: database.server.url }).on('error', () => undefined)],
  ])('with the pool is refused: %s', (_, make) => {
    const given = make()
    const call = (): unknown => mysqlStore(given as never)
    expect(call).toThrow(/^mysqlStore: expected what createPool\(\) of mysql2 or mysql2\/promise returns, got /)
    expect(call).not.toThrow(/secret/)
    if (typeof given === 'object' && 'destroy' in given) given.destroy()
  })

  it.each([
    ['INVALID_OPTION', 'table', ''],
    ['INVALID_OPTION', 'table', 'a'.repeat(65)],
    ['INVALID_OPTION', 'table', 'a\0b'],
    ['INVALID_OPTION', 'schema', ''],
    ['INVALID_OPTION', 'timeout', 0],
    ['INVALID_OPTION', 'timeout', 'soon'],
    ['UNKNOWN_OPTION', 'tabel', 'x'],
  ])('is refused: %s for the option %s: %j', (code, option, value) => {
    const refusal = expect.objectContaining({ code, message: expect.stringContaining(option) as string })
    expect(() => mysqlStore(database.admin, { [option]: value })).toThrow(refusal)
    if (option !== 'timeout') expect(() => mysqlTable({ [option]: value })).toThrow(refusal)
  })

  it('with the length of a key rejects only its own operation', async () => {
    const here = await world()
    const { transact } = mysqlDatabase(here.pool, { table: here.table })
    const none = () => ({ writes: [], result: 1 })
    await expect(transact(['x'.repeat(1025)], none, { readOnly: false })).rejects.toMatchObject({
      code: 'STORE_REJECTED',
    })
    expect(await transact(['x'.repeat(1024)], none, { readOnly: false })).toBe(1)
    // The longest name of a limiter, and the longest key in JSON.
    const name = '"'.repeat(256)
    const store = mysqlStore(here.pool, { table: here.table, timeout: '10s' })
    const limiter = keyed(store, perHour(1), name)
    expect((await limiter.consume('\u0001'.repeat(64))).allowed).toBe(true)
    expect((await limiter.consume('\u0001'.repeat(64))).allowed).toBe(false)
  })

  it('in a schema of its own works with its name', async () => {
    const here = await world()
    const where = { schema: 'own `schema`', table: 'its `rows`' }
    await here.pool.query('CREATE DATABASE `own ``schema```')
    await here.pool.query(mysqlTable(where))
    expect(await limiterOn(here, 3, where).consume('ann')).toMatchObject({ remaining: 2 })
  })
})
