import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { createConnection } from 'mysql2/promise'
import pg from 'pg'
import { pinned, start } from '../lib/processes.mjs'
import { installed } from '../lib/setup.mjs'

/**
 * A database on this machine. `reset` empties the tables of all subjects, and creates those that are missing.
 * @typedef {{ url: string, pid?: number, version: string, reset: () => Promise<void>, work: () => Promise<{ calls: number, cpu: number }>,
 *   close: () => Promise<void> }} Server
 */

/** What the server has done is not measured. */
const work = async () => ({ calls: 0, cpu: 0 })

/** A temporary folder. Servers do not run as root: then it belongs to `nobody`. */
function folder() {
  const path = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
  process.once('exit', () => rmSync(path, { recursive: true, force: true }))
  if (process.getuid() !== 0) return { path, user: {} }
  const [uid, gid] = ['-u', '-g'].map((flag) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' })))
  chownSync(path, uid, gid)
  return { path, user: { uid, gid } }
}

function found(command) {
  return execFileSync('sh', ['-c', command], { encoding: 'utf8' }).trim()
}

const INITDB = 'readlink -f "$(command -v initdb || ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null | tail -1)"'

/** @returns {Promise<Server>} with the settings of Debian's package: a commit waits for the disk */
export async function startPostgres(core) {
  if (found(INITDB) === '') installed('pg_ctlcluster', 'postgresql')
  const programs = dirname(found(INITDB))
  const { path, user } = folder()
  const options = { ...user, cwd: path, stdio: 'ignore' }
  execFileSync(join(programs, 'initdb'), ['-D', join(path, 'data'), '-U', 'sluice', '-A', 'trust'], options)
  const port = await freePort()
  const words = ['-D', join(path, 'data'), '-p', String(port), '-h', '127.0.0.1', '-k', path]
  const [program, ...args] = pinned(core, join(programs, 'postgres'), words)
  const server = start(program, args, options)
  const url = `postgres://sluice@127.0.0.1:${port}/postgres`
  const pool = new pg.Pool({ connectionString: url, max: 1 })
  pool.on('error', () => undefined)
  const version = await answering(async () => (await pool.query('SHOW server_version')).rows[0].server_version)
  const { postgresTable } = await import('../../dist/src/stores/postgres.js')
  return {
    url,
    pid: server.pid,
    version: `PostgreSQL ${version}`,
    work,
    async reset() {
      await pool.query('DROP TABLE IF EXISTS sluice, floor, peer')
      await pool.query('CREATE TABLE floor (key text PRIMARY KEY, points integer)')
      await pool.query(postgresTable())
    },
    async close() {
      await pool.end()
      await ended(server, 'SIGINT')
    },
  }
}

/** @returns {Promise<Server>} with the settings of Debian's package: a commit waits for the disk */
export async function startMysql(core) {
  if (!installed('mariadbd', 'mariadb-server')) throw new Error('mariadbd is not on the PATH: install mariadb-server')
  const { path, user } = folder()
  const options = { ...user, cwd: path, stdio: 'ignore' }
  const data = join(path, 'data')
  const setUp = ['--no-defaults', `--datadir=${data}`, '--auth-root-authentication-method=normal', '--skip-test-db']
  execFileSync('mariadb-install-db', setUp, options)
  const port = await freePort()
  const words = ['--no-defaults', `--datadir=${data}`, `--port=${port}`, '--bind-address=127.0.0.1']
  words.push(`--socket=${join(path, 'socket')}`, '--skip-name-resolve')
  const [program, ...args] = pinned(core, found('command -v mariadbd'), words)
  const server = start(program, args, options)
  const connect = () => createConnection({ host: '127.0.0.1', port, user: 'root', multipleStatements: true })
  const connection = await answering(connect)
  await connection.query('CREATE DATABASE bench; USE bench')
  const [[{ version }]] = await connection.query('SELECT version() AS version')
  const { mysqlTable } = await import('../../dist/src/stores/mysql.js')
  return {
    url: `mysql://root@127.0.0.1:${port}/bench`,
    pid: server.pid,
    version,
    work,
    async reset() {
      await connection.query('DROP DATABASE bench; CREATE DATABASE bench; USE bench')
      await connection.query('CREATE TABLE floor (`key` varchar(255) PRIMARY KEY, points integer)')
      await connection.query(mysqlTable())
    },
    async close() {
      await connection.end()
      await ended(server, 'SIGTERM')
    },
  }
}

/** @returns {Server} a file in WAL mode */
export function startSqlite() {
  const { path } = folder()
  const file = join(path, 'bench.db')
  const database = new Database(file)
  database.pragma('journal_mode = WAL')
  return {
    url: file,
    version: `SQLite ${database.prepare('SELECT sqlite_version() AS version').get().version}`,
    work,
    async reset() {
      for (const table of ['sluice', 'floor', 'peer']) database.exec(`DROP TABLE IF EXISTS ${table}`)
      database.exec('CREATE TABLE floor (key TEXT PRIMARY KEY, points INTEGER)')
    },
    close: async () => void database.close(),
  }
}

/** Asks until the server answers, for at most 30 seconds. */
async function answering(ask) {
  for (const end = performance.now() + 30_000; ;) {
    try {
      return await ask()
    } catch (error) {
      if (performance.now() > end) throw error
      await pause(100)
    }
  }
}

async function ended(server, signal) {
  const exit = once(server, 'exit')
  server.kill(signal)
  await exit
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}
