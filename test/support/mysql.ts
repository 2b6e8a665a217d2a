import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { programPath } from './debian.ts'
import { newData } from './new-data.ts'
import { userFor } from './postgres.ts'
import { freePort } from './redis.ts'
import { type DatabaseServer, restartable, startServer } from './server-process.ts'

/** A MariaDB or MySQL server, with the database `shop`. */
export interface MysqlServer extends DatabaseServer {
  readonly port: number
  readonly isMariaDB: boolean
}

/** The program of a MySQL server, such as `mysqld`, that is used instead of MariaDB. Debian has only MariaDB. */
const MYSQLD = process.env['SLUICE_MYSQLD']
const MISSING = 'This test needs a real MariaDB: put mariadbd and mariadb-install-db on the PATH.'
const USERS = `CREATE DATABASE IF NOT EXISTS shop;
CREATE USER IF NOT EXISTS sluice@'127.0.0.1';
GRANT ALL ON *.* TO sluice@'127.0.0.1' WITH GRANT OPTION;
`

/** Starts a server whose user `sluice` may do everything. `words` are further options of the command. */
export async function startMysql(...words: readonly string[]): Promise<MysqlServer> {
  const server = MYSQLD ?? programPath('command -v mariadbd', 'mariadb-server', MISSING)
  const directory = mkdtempSync(join(tmpdir(), 'sluice-mysql-'))
  // A server deletes the temporary tables that it finds when it starts, also those of other servers.
  const options = { ...userFor(directory), cwd: directory, env: { ...process.env, TMPDIR: directory } }
  const data = join(directory, 'data')
  const users = join(directory, 'users.sql')
  writeFileSync(users, USERS)
  const file = ['--no-defaults', `--datadir=${data}`]
  if (MYSQLD === undefined) {
    file.push('--innodb-log-file-size=64M')
    const setUp = programPath('command -v mariadb-install-db', 'mariadb-server', MISSING)
    const empty = ['--skip-test-db', '--auth-root-authentication-method=normal']
    await newData(data, setUp, [...file, ...empty], options)
  } else {
    await newData(data, MYSQLD, [...file, '--initialize-insecure'], options)
    file.push('--mysqlx=OFF', '--secure-file-priv=NULL')
  }
  const port = await freePort()
  const fixed = [
    ...file,
    `--port=${port}`,
    '--bind-address=127.0.0.1',
    `--socket=${join(directory, 'socket')}`,
    `--pid-file=${join(directory, 'pid')}`,
    `--init-file=${users}`,
    '--skip-name-resolve',
    '--innodb-flush-log-at-trx-commit=0',
  ]
  const running = await restartable(() => startServer(server, [...fixed, ...words], /ready for connections/, options))
  const stop = (): Promise<void> => running.end('SIGTERM')
  return Object.assign(running, {
    url: `mysql://sluice@127.0.0.1:${port}/shop`,
    port,
    isMariaDB: MYSQLD === undefined,
    stop,
    async remove() {
      await stop()
      rmSync(directory, { recursive: true, force: true })
    },
  })
}
