import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import Redis from 'ioredis'
import { pinned, start } from '../lib/child.mjs'

/** Starts a Redis, or Valkey, of its own on a free port of 127.0.0.1; it keeps nothing on disk. Throws when there is none. */
export async function startRedis(core) {
  const command = ['redis-server', 'valkey-server'].find(isThere)
  if (command === undefined)
    throw new Error('Put redis-server or valkey-server on the PATH, such as `apt-get install redis-server`')
  const directory = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
  const port = await freePort()
  const settings = [
    '--port',
    String(port),
    '--bind',
    '127.0.0.1',
    '--save',
    '',
    '--appendonly',
    'no',
    '--dir',
    directory,
  ]
  const [program, ...args] = pinned(core, command, settings)
  const server = start(program, args, { stdio: 'ignore' })
  const client = new Redis(port, '127.0.0.1', { retryStrategy: () => 50 })
  // Until it listens.
  client.on('error', () => {})
  await ready(client, server)
  return {
    port,
    client,
    version: `${command.replace('-server', '')} ${await version(client)}`,
    async close() {
      client.disconnect()
      const ended = once(server, 'exit')
      server.kill()
      await ended
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

export function isThere(command) {
  try {
    execFileSync('sh', ['-c', `command -v ${command}`], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

async function ready(client, server) {
  const tooLate = pause(10_000, 'late', { ref: false })
  const answered = await Promise.race([client.ping(), once(server, 'exit'), tooLate])
  if (answered !== 'PONG') throw new Error('The Redis server that was started does not answer')
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
