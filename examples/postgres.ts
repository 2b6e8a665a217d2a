// Run it: npm run build && npm run build:examples && node dist/examples/postgres.js
// With Node 22.18 or newer also: npm run build && node examples/postgres.ts
//
// Four processes behind one port, limited together by PostgreSQL. With `--once`, it sends 400 requests to them, prints how many were admitted, and
// ends; otherwise they run until Ctrl-C. It uses the server of DATABASE_URL. Without one, it starts PostgreSQL in a temporary folder; on Debian,
// root installs it if it is missing.
import cluster from 'node:cluster'
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import express from 'express'
import { Pool } from 'pg'
import { fixedWindow, guard } from 'sluice'
import { rateLimit } from 'sluice/express'
import { postgresStore, postgresTable } from 'sluice/postgres'

const WORKERS = 4
const QUOTA = 100
const REQUESTS = 400

/** One of the processes. */
function work(): void {
  const pool = new Pool({ connectionString: process.env['DATABASE_URL'] })
  // The database has just started: a decision may wait longer than the usual 50 ms, and no process decides alone.
  const store = guard(postgresStore(pool, { timeout: '5s' }), { deadline: '10s', onOutage: 'closed' })
  const app = express()
  app.use(rateLimit({ keyer: () => 'everybody', limits: fixedWindow({ quota: QUOTA, window: '1h' }), store }))
  app.get('/', (_request, response) => void response.send(`hello from ${process.pid}`))
  app.listen(Number(process.env['PORT'] ?? 0), '127.0.0.1')
}

/** Starts the processes, and returns the URL that they share. */
async function startWorkers(databaseUrl: string): Promise<string> {
  const workers = Array.from({ length: WORKERS }, () => cluster.fork({ DATABASE_URL: databaseUrl }))
  const addresses = await Promise.all(workers.map(async (worker) => (await once(worker, 'listening')) as [AddressInfo]))
  return `http://127.0.0.1:${addresses[0]![0].port}`
}

/** Sends requests, 20 at a time, and prints what came of them. */
async function visit(url: string): Promise<void> {
  let [asked, admitted] = [0, 0]
  const processes = new Set<string>()
  const client = async (): Promise<void> => {
    while (asked++ < REQUESTS) {
      // A new connection for each request, so that all processes get some.
      const response = await fetch(url, { headers: { Connection: 'close' } })
      const text = await response.text()
      if (response.ok) processes.add(text)
      if (response.ok) admitted++
    }
  }
  await Promise.all(Array.from({ length: 20 }, client))
  console.log(
    `${REQUESTS} requests to ${processes.size} processes: ${admitted} admitted, ${REQUESTS - admitted} denied`,
  )
}

interface Server {
  readonly url: string
  stop(): Promise<void>
}

const FIND = 'command -v initdb || ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null | tail -1'
const INSTALL = 'apt-get update && apt-get install -y --no-install-recommends postgresql'

/** Returns the folder of the programs of PostgreSQL. */
function programs(): string {
  const find = (): string => execFileSync('sh', ['-c', `readlink -f "$(${FIND})"`], { encoding: 'utf8' }).trim()
  if (find() === '') {
    console.log(`PostgreSQL is not installed: ${INSTALL}`)
    execFileSync('sh', ['-c', INSTALL], { stdio: 'ignore' })
  }
  return dirname(find())
}

/** Starts a server with an empty database, which does not wait for the disk. PostgreSQL does not run as root: then it runs as `nobody`. */
async function startServer(): Promise<Server> {
  const folder = programs()
  const home = mkdtempSync(join(tmpdir(), 'sluice-postgres-'))
  const id = (flag: string): number => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }))
  const user = process.getuid?.() === 0 ? { uid: id('-u'), gid: id('-g') } : {}
  if (user.uid !== undefined) chownSync(home, user.uid, user.gid)
  const data = join(home, 'data')
  execFileSync(join(folder, 'initdb'), ['-D', data, '-U', 'sluice', '-A', 'trust', '--no-sync'], {
    ...user,
    cwd: home,
    stdio: 'ignore',
  })
  const port = await freePort()
  const words = ['-D', data, '-p', String(port), '-h', '127.0.0.1', '-k', home, '-F']
  const child = spawn(join(folder, 'postgres'), words, { ...user, cwd: home, stdio: ['ignore', 'ignore', 'pipe'] })
  await ready(child)
  return {
    url: `postgres://sluice@127.0.0.1:${port}/postgres`,
    async stop() {
      const ended = once(child, 'exit')
      child.kill('SIGINT')
      await ended
      rmSync(home, { recursive: true, force: true })
    },
  }
}

function ready(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    child.stderr!.on('data', (data: Buffer) => {
      if (data.includes('ready to accept connections')) resolve()
    })
    child.once('exit', (code) => reject(new Error(`postgres ended with ${code}`)))
  })
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

async function main(): Promise<void> {
  const given = process.env['DATABASE_URL']
  const server = given === undefined ? await startServer() : { url: given, stop: async () => undefined }
  const stop = async (): Promise<void> => {
    await new Promise<void>((resolve) => {
      cluster.disconnect(resolve)
    })
    await server.stop()
    process.exit()
  }
  process.once('SIGINT', () => void stop())
  process.once('SIGTERM', () => void stop())

  const pool = new Pool({ connectionString: server.url })
  await pool.query(postgresTable())
  await pool.end()
  const url = await startWorkers(server.url)
  console.log(`listening on ${url}`)
  if (!process.argv.includes('--once')) return
  await visit(url)
  await stop()
}

if (cluster.isPrimary) await main()
else work()
