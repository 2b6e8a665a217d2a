import type { ChildProcess } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { programPath } from './debian.ts'
import { restartable, startServer } from './server-process.ts'

/** A server for one test, on a free port of this machine. */
export interface RedisServer {
  readonly port: number
  readonly url: string
  readonly process: ChildProcess
  /** Kills the server. Its port and its folder stay. */
  kill(): Promise<void>
  /** Starts the server again after `kill`. */
  restart(): Promise<void>
  stop(): Promise<void>
}

/** Returns the command that starts Redis or Valkey: from the PATH, else from Debian's package. Else throws with what to install. */
export function redisCommand(): string {
  const missing = 'The tests need a real Redis: put redis-server or valkey-server on the PATH.'
  return programPath('command -v redis-server || command -v valkey-server', 'redis-server', missing)
}

/**
 * Returns a free port below those of outgoing connections: one of these could take it before the server starts. The bus of a cluster listens on this port
 * plus 10,000.
 */
export async function freePort(): Promise<number> {
  const port = 11_000 + Math.floor(Math.random() * 10_000)
  return (await isFree(port)) && (await isFree(port + 10_000)) ? port : freePort()
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer().once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}

/** Returns a server that tests can share, and a prefix for their keys: the server in `REDIS_URL`, else a new one. */
export async function anyRedis(): Promise<{ url: string; prefix: string; stop(): Promise<void> }> {
  const prefix = `sluice-test-${randomUUID()}:`
  const given = process.env['REDIS_URL']
  if (given !== undefined) return { url: given, prefix, stop: async () => {} }
  const { url, stop: end } = await startRedis()
  return { url, prefix, stop: end }
}

/** Starts a server that writes nothing to disk. */
export async function startRedis(...options: readonly string[]): Promise<RedisServer> {
  const port = await freePort()
  const directory = mkdtempSync(join(tmpdir(), 'sluice-redis-'))
  const fixed = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', directory]
  const words = [...fixed, ...options]
  const running = await restartable(() => startServer(redisCommand(), words, /Ready to accept connections/))
  return Object.assign(running, {
    port,
    url: `redis://127.0.0.1:${port}`,
    kill: () => running.end(),
    restart: () => running.start(),
    async stop() {
      await running.end()
      rmSync(directory, { recursive: true, force: true })
    },
  })
}
