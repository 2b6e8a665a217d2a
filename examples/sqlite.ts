// Run it: npm run build && npm run build:examples && node dist/examples/sqlite.js
// With Node 22.18 or newer also: npm run build && node examples/sqlite.ts
//
// Four processes behind one port, limited together by a file of SQLite: no server is needed. With `--once`, it sends 400 requests to them,
// prints how many were admitted, and ends.
import cluster from 'node:cluster'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fixedWindow } from 'sluice'
import { rateLimit } from 'sluice/node'
import { sqliteStore } from 'sluice/sqlite'

const WORKERS = 4
const QUOTA = 100
const REQUESTS = 400

/** One of the processes. */
function work(): void {
  const limited = rateLimit({
    keyer: () => 'everybody',
    limits: fixedWindow({ name: 'all', quota: QUOTA, window: '1h' }),
    store: sqliteStore(process.env['LIMITS_FILE']!),
  })
  createServer(limited((_, response) => void response.end(`hello from ${process.pid}`))).listen(
    Number(process.env['PORT'] ?? 0),
    '127.0.0.1',
  )
}

/** Starts the processes, and returns the URL that they share. */
async function startWorkers(file: string): Promise<string> {
  const workers = Array.from({ length: WORKERS }, () => cluster.fork({ LIMITS_FILE: file }))
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

if (cluster.isPrimary) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  const url = await startWorkers(join(folder, 'limits.db'))
  console.log(`listening on ${url}`)
  if (process.argv.includes('--once')) {
    await visit(url)
    await new Promise<void>((resolve) => {
      cluster.disconnect(resolve)
    })
    rmSync(folder, { recursive: true })
  }
} else work()
