// Four processes, one port, one quota: a node:cluster of Express servers that count in PostgreSQL. It sends 300 requests at the same time and
// prints how many of them were admitted: exactly 100. With `--once` it ends then; otherwise the servers run until Ctrl-C.
// It uses the server of DATABASE_URL. Without one, it starts PostgreSQL in a temporary folder; on Debian, root installs it if it is missing.
import cluster from 'node:cluster'
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import express from 'express'
import { Pool } from 'pg'
import { guard, perHour } from 'sluice'
import { rateLimit } from 'sluice/express'
import { postgresStore, postgresTable } from 'sluice/postgres'

const WORKERS = 4
const QUOTA = 100
const REQUESTS = 300

/** One of the servers. This is all that a service needs. */
function serve(databaseUrl: string, port: number): void {
  const pool = new Pool({ connectionString: databaseUrl })
  const app = express()
  // All requests come at the same time to a database that has just started: a decision may wait longer than the usual 50 ms.
  const store = guard(postgresStore(pool, { timeout: '5s' }), { deadline: '10s', onOutage: 'closed' })
  app.use(rateLimit({ keyer: () => 'everybody', limits: perHour(QUOTA), store }))
  app.get('/', (_request, response) => void response.send(`served by process ${process.pid}\n`))
  app.listen(port, '127.0.0.1', () => process.send?.('ready'))
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

/** Starts a server with an empty database. PostgreSQL does not run as root: then it runs as `nobody`. */
async function startServer(): Promise<Server> {
  const folder = programs()
  const home = mkdtempSync(join(tmpdir(), 'sluice-postgres-'))
  const id = (flag: string): number => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }))
  const user = process.getuid?.() === 0 ? { uid: id('-u'), gid: id('-g') } : {}
  if (user.uid !== undefined) chownSync(home, user.uid, user.gid)
  const data = join(home, 'data')
  execFileSync(join(folder, 'initdb'), ['-D', data, '-U', 'sluice', '-A', 'trust'], {
    ...user,
    cwd: home,
    stdio: 'ignore',
  })
  const port = await freePort()
  const words = ['-D', data, '-p', String(port), '-h', '127.0.0.1', '-k', home]
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
  const pool = new Pool({ connectionString: server.url })
  await pool.query(postgresTable())
  await pool.end()

  const port = await freePort()
  const workers = Array.from({ length: WORKERS }, () => cluster.fork({ DATABASE: server.url, PORT: String(port) }))
  await Promise.all(workers.map((worker) => once(worker, 'message')))
  const url = `http://127.0.0.1:${port}/`
  const answers = await Promise.all(
    Array.from({ length: REQUESTS }, async () => {
      const response = await fetch(url, { headers: { connection: 'close' } })
      return { status: response.status, text: await response.text() }
    }),
  )
  const count = (wanted: number): number => answers.filter(({ status }) => status === wanted).length
  const pids = new Set(answers.filter(({ status }) => status === 200).map(({ text }) => text))
  console.log(`${REQUESTS} requests to ${WORKERS} processes, quota ${QUOTA}`)
  console.log(
    `${count(200)} admitted by ${pids.size} processes, ${count(429)} denied, ${count(503)} without a decision`,
  )

  const stop = async (): Promise<void> => {
    for (const worker of workers) worker.kill()
    await server.stop()
  }
  if (process.argv.includes('--once')) return stop()
  console.log(`listening on ${url}, counting in ${server.url}; Ctrl-C ends`)
  process.once('SIGINT', () => void stop())
}

if (cluster.isPrimary) await main()
else serve(process.env['DATABASE']!, Number(process.env['PORT']))
