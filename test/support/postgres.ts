import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process'
import { chmodSync, chownSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { programPath } from './debian.ts'
import { newData } from './new-data.ts'
import { freePort } from './redis.ts'

/** A PostgreSQL server for one test, on a free port of this machine. */
export interface PostgresServer {
  readonly url: string
  readonly process: ChildProcess
  /** Ends the server and keeps its data. */
  stop(): Promise<void>
  /** Starts it again with its data. */
  start(): Promise<void>
  /** Starts a standby that follows it. */
  standby(): Promise<PostgresServer>
  /** Ends it and deletes its data. */
  remove(): Promise<void>
}

/** Debian keeps the programs of each version in a separate folder. */
const FIND = 'command -v initdb || ls /usr/lib/postgresql/*/bin/initdb /usr/pgsql-*/bin/initdb 2>/dev/null | tail -1'

/** Returns the path of `initdb`: of an installed server, else of Debian's package. Else throws with what to install. */
function initdb(): string {
  return realpathSync(
    programPath(FIND, 'postgresql', 'This test needs a real PostgreSQL: put initdb and postgres on the PATH.'),
  )
}

/** Starts a server that trusts every local user. */
export async function startPostgres(): Promise<PostgresServer> {
  return startIn((program, data, options) =>
    newData(data, program, ['-D', data, '-U', 'sluice', '-A', 'trust', '--no-sync'], options),
  )
}

/** Starts a server whose data `makeData` writes, with a program in the folder of `initdb`. */
async function startIn(
  makeData: (program: string, data: string, options: ReturnType<typeof userFor> & { cwd: string }) => Promise<unknown>,
): Promise<PostgresServer> {
  const setUp = initdb()
  const directory = mkdtempSync(join(tmpdir(), 'sluice-postgres-'))
  const user = userFor(directory)
  const data = join(directory, 'data')
  await makeData(setUp, data, { ...user, cwd: directory })
  const port = await freePort()
  const words = ['-D', data, '-p', String(port), '-h', '127.0.0.1', '-k', directory, '-F']
  const start = async (): Promise<ChildProcess> => {
    const child = spawn(join(setUp, '..', 'postgres'), words, {
      ...user,
      cwd: directory,
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    await ready(child)
    return child
  }
  let child = await start()
  const stop = async (): Promise<void> => {
    child.kill('SIGINT')
    while (child.exitCode === null && child.signalCode === null) await pause(10)
  }
  return {
    url: `postgres://sluice@127.0.0.1:${port}/postgres`,
    get process() {
      return child
    },
    stop,
    async start() {
      child = await start()
    },
    standby: () =>
      startIn((program, copy, options) => {
        const words = ['-R', '-X', 'stream', '-c', 'fast', '-h', '127.0.0.1', '-p', String(port), '-U', 'sluice']
        return promisify(execFile)(join(program, '..', 'pg_basebackup'), ['-D', copy, ...words], options)
      }),
    async remove() {
      // A client of pg that is being closed reports an error of the server to nobody.
      await pause(200)
      await stop()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

/** Database servers refuse to run as root: they run as `nobody` then, who owns the folder. */
export function userFor(directory: string): { uid?: number; gid?: number } {
  if (process.getuid?.() !== 0) return {}
  const [uid, gid] = ['-u', '-g'].map((flag) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' })))
  chownSync(directory, uid!, gid!)
  chmodSync(directory, 0o700)
  return { uid: uid!, gid: gid! }
}

function ready(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let log = ''
    child.stderr!.on('data', (data: Buffer) => {
      log += data.toString()
      if (/ready to accept (?:read-only )?connections/.test(log)) resolve()
    })
    child.once('exit', (code) => reject(new Error(`postgres ended with ${code}: ${log}`)))
    child.once('error', reject)
  })
}
