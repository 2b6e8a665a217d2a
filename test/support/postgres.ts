import { execFile, execFileSync } from 'node:child_process'
import { chmodSync, chownSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { programPath } from './debian.ts'
import { newData } from './new-data.ts'
import { freePort } from './redis.ts'
import { type DatabaseServer, restartable, startServer } from './server-process.ts'

export interface PostgresServer extends DatabaseServer {
  /** Starts a standby that follows it. */
  standby(): Promise<PostgresServer>
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
  const options = { ...userFor(directory), cwd: directory }
  const data = join(directory, 'data')
  await makeData(setUp, data, options)
  const port = await freePort()
  const words = ['-D', data, '-p', String(port), '-h', '127.0.0.1', '-k', directory, '-F']
  const running = await restartable(() =>
    startServer(join(setUp, '..', 'postgres'), words, /ready to accept (?:read-only )?connections/, options),
  )
  const stop = (): Promise<void> => running.end('SIGINT')
  return Object.assign(running, {
    url: `postgres://sluice@127.0.0.1:${port}/postgres`,
    stop,
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
  })
}

/** Database servers refuse to run as root: they run as `nobody` then, who owns the folder. */
export function userFor(directory: string): { uid?: number; gid?: number } {
  if (process.getuid?.() !== 0) return {}
  const [uid, gid] = ['-u', '-g'].map((flag) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' })))
  chownSync(directory, uid!, gid!)
  chmodSync(directory, 0o700)
  return { uid: uid!, gid: gid! }
}
