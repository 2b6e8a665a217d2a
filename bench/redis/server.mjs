import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import Redis from 'ioredis'
import { pinned, start } from '../lib/processes.mjs'
import { installed, isInstalled } from '../lib/setup.mjs'

/** A user that may not use functions: a store that connects as this user falls back to EVALSHA. */
export const WITHOUT_FUNCTIONS = 'without-functions'

/** Starts a Redis or Valkey server on a free port of 127.0.0.1. It keeps nothing on disk. Throws when there is none. */
export async function startRedis(core) {
  const command = serverCommand()
  const directory = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }))
  const port = await freePort()
  const settings = ['--port', port, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', directory]
  const [program, ...args] = pinned(core, command, settings.map(String))
  const server = start(program, args, { stdio: 'ignore' })
  const client = new Redis(port, '127.0.0.1', { retryStrategy: () => 50 })
  // Connections fail until the server listens.
  client.on('error', () => {})
  await ready(client, server)
  await forbidFunctions(client)
  return {
    port,
    pid: server.pid,
    client,
    reset: () => client.flushall(),
    work: () => serverWork(client),
    version: `${command.replace('-server', '')} ${await version(client)}`,
    async close() {
      client.disconnect()
      const ended = once(server, 'exit')
      server.kill()
      await ended
    },
  }
}

function serverCommand() {
  if (isInstalled('valkey-server') && !isInstalled('redis-server')) return 'valkey-server'
  if (installed('redis-server')) return 'redis-server'
  throw new Error(
    'Neither redis-server nor valkey-server is on the PATH: install one, such as `apt-get install redis-server`',
  )
}

/** Servers before Redis 7 have no functions to forbid. */
async function forbidFunctions(client) {
  const allowed = ['ACL', 'SETUSER', WITHOUT_FUNCTIONS, 'on', 'nopass', '~*', '&*', '+@all']
  await client.call(...allowed, '-fcall', '-fcall_ro', '-function').catch(() => client.call(...allowed))
}

/**
 * What the server has done since it started: scripts and functions that were called, and processor time in microseconds.
 * @returns {Promise<{ calls: number, cpu: number }>}
 */
async function serverWork(client) {
  const [stats, cpu] = await Promise.all([client.info('commandstats'), client.info('cpu')])
  const sum = (matches) => [...matches].reduce((total, [, number]) => total + Number(number), 0)
  return {
    calls: sum(stats.matchAll(/cmdstat_(?:eval|evalsha|fcall):calls=(\d+)/g)),
    cpu: 1e6 * sum(cpu.matchAll(/^used_cpu_(?:user|sys):([\d.]+)/gm)),
  }
}

async function ready(client, server) {
  const late = pause(10_000, 'late', { ref: false })
  const answer = await Promise.race([client.ping(), once(server, 'exit'), late])
  if (answer !== 'PONG') throw new Error('The Redis server does not answer')
}

async function version(client) {
  const info = await client.info('server')
  return /(?:valkey|redis)_version:(\S+)/.exec(info)[1]
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}
