import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { programPath } from './debian.ts'
import { freePort } from './redis.ts'
import { endProcess, startServer } from './server-process.ts'

/** An etcd for one test, on a free port of this machine. */
export interface EtcdServer {
  readonly url: string
  /** Ends the server and deletes its data. */
  remove(): Promise<void>
}

export async function startEtcd(): Promise<EtcdServer> {
  const etcd = programPath('command -v etcd', 'etcd-server', 'This test needs a real etcd: put etcd on the PATH.')
  const directory = mkdtempSync(join(tmpdir(), 'sluice-etcd-'))
  const [url, peers] = [`http://127.0.0.1:${await freePort()}`, `http://127.0.0.1:${await freePort()}`]
  const words = [
    `--data-dir=${directory}`,
    `--listen-client-urls=${url}`,
    `--advertise-client-urls=${url}`,
    `--listen-peer-urls=${peers}`,
    `--initial-advertise-peer-urls=${peers}`,
    `--initial-cluster=default=${peers}`,
    '--logger=zap',
    '--log-level=error',
    '--unsafe-no-fsync',
  ]
  const child = await startServer(etcd, words, `${url}/health`)
  return {
    url,
    async remove() {
      await endProcess(child)
      rmSync(directory, { recursive: true, force: true })
    },
  }
}
