import { execFileSync } from 'node:child_process'
import { pinned, start } from '../lib/child.mjs'

const CONNECTIONS = 64

/**
 * What asks an app for pages as fast as it can: `wrk`, installed from Debian where that is possible, else autocannon.
 * @returns {{ name: string, load: (port: number, seconds: number, core?: number) => Promise<number> }} requests a second
 */
export function loader() {
  const wrk = versionOfWrk() ?? installWrk()
  return wrk === undefined ? { name: 'autocannon', load: withAutocannon } : { name: wrk, load: withWrk }
}

function versionOfWrk() {
  try {
    // It tells its version, then ends as though something were wrong.
    execFileSync('wrk', ['-v'], { stdio: 'pipe' })
  } catch (error) {
    return /wrk \S+/.exec(String(error.stdout))?.[0]
  }
  return 'wrk'
}

function installWrk() {
  if (process.platform !== 'linux' || process.getuid() !== 0) return undefined
  try {
    console.error('Installing wrk…')
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
    execFileSync('apt-get', ['update', '-qq'], { stdio: 'ignore', env })
    execFileSync('apt-get', ['install', '-y', '-qq', '--no-install-recommends', 'wrk'], { stdio: 'ignore', env })
  } catch {
    return undefined
  }
  return versionOfWrk()
}

async function withWrk(port, seconds, core) {
  const args = ['-t', '1', '-c', String(CONNECTIONS), '-d', `${seconds}s`, `http://127.0.0.1:${port}/`]
  const told = await output(pinned(core, 'wrk', args))
  if (/Non-2xx|Socket errors/.test(told)) throw new Error(`Not every request was answered:\n${told}`)
  return Number(/Requests\/sec:\s+([\d.]+)/.exec(told)[1])
}

async function withAutocannon(port, seconds) {
  const { default: autocannon } = await import('autocannon')
  // In a thread, beside the process that waits.
  const { requests, non2xx, errors } = await autocannon({
    url: `http://127.0.0.1:${port}/`,
    connections: CONNECTIONS,
    duration: seconds,
    workers: 1,
  })
  if (non2xx + errors > 0) throw new Error(`Not every request was answered: ${non2xx} refused, ${errors} failed`)
  return requests.average
}

function output([command, ...args]) {
  const child = start(command, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  return new Promise((resolve, reject) => {
    let told = ''
    child.stdout.on('data', (data) => (told += data))
    child.stderr.on('data', (data) => (told += data))
    child.once('error', reject)
    child.once('close', (code) =>
      code === 0 ? resolve(told) : reject(new Error(`${command} ended with ${code}\n${told}`)),
    )
  })
}
