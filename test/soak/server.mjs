import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'

/** A Redis or Valkey server on a free port of this machine. It keeps nothing when it ends, and can be started again. */
export class Server {
  port
  #command
  #directory = mkdtempSync(join(tmpdir(), 'sluice-soak-'))
  #child

  /** Starts a server. Throws when there is none on the PATH. */
  static async start() {
    const server = new Server()
    server.#command = ['redis-server', 'valkey-server'].find((name) => spawnSync(name, ['--version']).status === 0)
    if (server.#command === undefined) throw new Error('Put redis-server or valkey-server on the PATH')
    server.port = await freePort()
    await server.start()
    return server
  }

  async start() {
    const settings = [
      '--port',
      this.port,
      '--bind',
      '127.0.0.1',
      '--save',
      '',
      '--appendonly',
      'no',
      '--dir',
      this.#directory,
    ]
    const child = spawn(this.#command, settings.map(String), { stdio: ['ignore', 'pipe', 'inherit'] })
    this.#child = child
    let log = ''
    for await (const data of child.stdout) {
      log += data
      if (log.includes('Ready to accept connections')) break
    }
    if (!log.includes('Ready to accept connections')) throw new Error(`${this.#command} did not start:\n${log}`)
  }

  async kill() {
    const ended = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await ended
  }

  /** Ends it in good order. */
  async shutDown() {
    const ended = once(this.#child, 'exit')
    this.#child.kill('SIGTERM')
    await ended
  }

  freeze() {
    this.#child.kill('SIGSTOP')
  }

  thaw() {
    this.#child.kill('SIGCONT')
  }

  /** Deletes all functions and scripts, so that they have to be loaded again. */
  async flushPrograms() {
    const client = new Redis(this.port, '127.0.0.1')
    try {
      await client.script('FLUSH')
      // Servers before Redis 7 have no functions.
      await client.call('FUNCTION', 'FLUSH').catch(() => undefined)
    } finally {
      client.disconnect()
    }
  }

  remove() {
    this.#child.kill('SIGKILL')
    rmSync(this.#directory, { recursive: true, force: true })
  }
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}
