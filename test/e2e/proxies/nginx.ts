import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { programPath } from '../../support/debian.ts'
import { freePort } from '../../support/redis.ts'

/** A running nginx on free ports. */
export interface Nginx {
  stop(): Promise<void>
}

/** Returns the nginx command, from the PATH or from Debian's package. Throws an error that says what to do. */
export function nginxCommand(): string {
  const missing = 'The tests need a real nginx: put it on the PATH (Debian: apt-get install nginx-light).'
  return programPath('command -v nginx', 'nginx-light', missing)
}

/** Starts nginx with `server` blocks, and waits until it listens on the ports. */
export async function startNginx(servers: string, ports: readonly number[]): Promise<Nginx> {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-nginx-'))
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  const paths = temporary.map((each) => `${each}_temp_path ${directory}/${each};`).join('\n')
  const head = `daemon off;\nmaster_process off;\npid ${directory}/nginx.pid;\nerror_log stderr;\nevents {}\n`
  writeFileSync(join(directory, 'nginx.conf'), `${head}http {\naccess_log off;\n${paths}\n${servers}\n}\n`)
  const args = ['-p', directory, '-c', join(directory, 'nginx.conf'), '-e', 'stderr']
  const child = spawn(nginxCommand(), args, { stdio: ['ignore', 'ignore', 'pipe'] })
  let log = ''
  child.stderr.on('data', (data: Buffer) => (log += data.toString()))
  let ended = false
  const end = new Promise<void>((resolve) => child.once('exit', () => resolve())).then(() => void (ended = true))
  for (const port of ports) {
    while (!(await listens(port))) {
      if (ended) throw new Error(`nginx did not start:\n${log}`)
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }
  return {
    async stop() {
      child.kill('SIGKILL')
      await end
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(socket.destroy() === socket))
    socket.on('error', () => resolve(false))
  })
}

export { freePort }
