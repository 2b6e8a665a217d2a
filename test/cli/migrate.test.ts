import { Pool } from 'pg'
import { afterAll, expect, it } from 'vitest'
import { createPool } from 'mysql2/promise'
import { applyMigration } from '../../src/cli/databases.ts'
import { EXIT } from '../../src/cli/print.ts'
import { commandLine } from '../support/command-line.ts'
import { startMysql } from '../support/mysql.ts'
import { freePort } from '../support/redis.ts'
import { startPostgres } from '../support/postgres.ts'

const cli = commandLine()
const [server, mysql] = await Promise.all([startPostgres(), startMysql()])
const pool = new Pool({ connectionString: server.url }).on('error', () => undefined)
const mysqlPool = createPool({ uri: mysql.url })
afterAll(async () => {
  await pool.end()
  await server.remove()
  await mysqlPool.end()
  await mysql.remove()
})

it('six migrations at the same time create one table', { timeout: 60_000 }, async () => {
  await pool.query('CREATE ROLE public_user')
  for (let round = 0; round < 30; round++) {
    const migration = { table: `round ${round}`, unlogged: false, grant: 'public_user' }
    const ends = await Promise.allSettled(Array.from({ length: 6 }, () => applyMigration(server.url, migration)))
    expect(ends.filter(({ status }) => status === 'rejected')).toEqual([])
  }
})

it('prints the statement and the grant, with a schema its own grant', async () => {
  expect(await cli.output('migrate', 'postgres', '--grant', 'a"b', '--schema', 's')).toMatch(
    /CREATE TABLE[^;]*;\nGRANT USAGE ON SCHEMA "s" TO "a""b";\nGRANT SELECT, INSERT, UPDATE, DELETE ON TABLE "s"\."sluice" TO "a""b";\n$/,
  )
  expect(await cli.output('migrate', 'mysql', '--grant', 'app@10.0.0.%')).toMatch(
    /;\nGRANT SELECT, INSERT, UPDATE, DELETE ON `sluice` TO `app`@`10\.0\.0\.%`;\n$/,
  )
})

it('the text of several statements creates the table in one step', async () => {
  await pool.query('CREATE ROLE reader')
  await pool.query(await cli.output('migrate', 'postgres', '--grant', 'reader', '--table', 'printed'))
  const { rows } = await pool.query("SELECT has_table_privilege('reader', 'printed', 'DELETE') AS has")
  expect(rows).toEqual([{ has: true }])
})

it('PostgreSQL: checks a table, creates it, grants the rights, and changes no table that exists', async () => {
  await pool.query('CREATE ROLE app LOGIN')
  const app = server.url.replace('sluice@', 'app@')
  const here = ['--table', 'checked']
  const before = await cli.run(['migrate', app, ...here])
  expect(before).toMatchObject({ code: EXIT.failed, out: expect.stringContaining('CREATE TABLE') as string })
  expect(before.error).toContain('does not exist. Create it: npx sluice migrate postgres://… --apply --table checked')

  expect(await cli.output('migrate', server.url, '--apply', ...here)).toContain('The table exists.')
  const refused = await cli.run(['migrate', app, ...here])
  expect([refused.code, refused.error]).toEqual([EXIT.failed, expect.stringContaining('TO "app"')])
  await cli.output('migrate', server.url, '--apply', '--grant', 'app', ...here)
  const right = await cli.run(['migrate', app, ...here])
  expect([right.code, right.error]).toEqual([EXIT.done, expect.stringContaining('The table exists.')])

  await pool.query('ALTER TABLE checked DROP CONSTRAINT checked_pkey')
  for (const words of [[], ['--apply']]) {
    const wrong = await cli.run(['migrate', server.url, ...words, ...here])
    expect([wrong.code, wrong.error]).toEqual([
      EXIT.failed,
      expect.stringContaining('ALTER TABLE "checked" ADD PRIMARY KEY (key)'),
    ])
  }
})

it('MySQL: checks a table, creates it, grants the rights, and changes no table that exists', async () => {
  await mysqlPool.query("CREATE USER app@'127.0.0.1'")
  await mysqlPool.query('CREATE TABLE other (id INT)')
  await mysqlPool.query("GRANT SELECT ON other TO app@'127.0.0.1'")
  const app = mysql.url.replace('sluice@', 'app@')
  await Promise.all(Array.from({ length: 6 }, () => cli.run(['migrate', mysql.url, '--apply'])))
  const refused = await cli.run(['migrate', app])
  expect([refused.code, refused.error]).toEqual([EXIT.failed, expect.stringContaining('TO `app`@`127.0.0.1`')])
  await cli.output('migrate', mysql.url, '--apply', '--grant', 'app@127.0.0.1')
  expect(await cli.run(['migrate', app])).toMatchObject({ code: EXIT.done })
  await mysqlPool.query('ALTER TABLE sluice DROP PRIMARY KEY')
  const wrong = await cli.run(['migrate', mysql.url, '--apply'])
  expect([wrong.code, wrong.error]).toEqual([EXIT.failed, expect.stringContaining('ADD PRIMARY KEY (`key`)')])
})

it('prints the statement, and that the table was not checked, when there is no server', async () => {
  const url = `postgres://ann:secret@127.0.0.1:${await freePort()}/shop`
  const { code, out, error } = await cli.run(['migrate', url])
  expect([code, out]).toEqual([EXIT.done, expect.stringContaining('CREATE TABLE')])
  expect(error).toContain('The table was not checked')
  expect(error).not.toContain('secret')
})

it.each([
  [['mongo'], 'expected postgres'],
  [[], 'expected a database or a URL'],
  [['postgres', '--apply'], 'expected a URL such as postgres://'],
  [['redis://localhost'], 'expected postgres'],
  [['sqlite'], 'expected postgres, mysql'],
  [['mysql', '--unlogged'], 'only PostgreSQL'],
  [['mysql', '--grant', ''], '--grant: expected the name of a user'],
])('refuses %o', async (words, reason) => {
  const { code, error } = await cli.run(['migrate', ...words])
  expect([code, error]).toEqual([EXIT.misused, expect.stringContaining(reason)])
})

it('creates an unlogged table', async () => {
  expect(await cli.output('migrate', 'postgres', '--unlogged', '--schema', 'a"b')).toContain(
    'CREATE UNLOGGED TABLE IF NOT EXISTS "a""b"."sluice"',
  )
})
