import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { programPath } from './debian.ts'
import { freePort } from './redis.ts'

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
  const child = spawn(etcd, words, { stdio: ['ignore', 'ignore', 'pipe'] })
  let log = ''
  child.stderr.on('data', (data: Buffer) => (log += data.toString()))
  const isHealthy = (): Promise<boolean> =>
    fetch(`${url}/health`).then(
      ({ ok }) => ok,
      () => false,
    )
  for (let tries = 0; !(await isHealthy()); tries++) {
    if (tries === 300 || child.exitCode !== null) {
      child.kill('SIGKILL')
      throw new Error(`etcd did not start: ${log}`)
    }
    await pause(50)
  }
  return {
    url,
    async remove() {
      child.kill('SIGKILL')
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
      rmSync(directory, { recursive: true, force: true })
    },
  }
}
