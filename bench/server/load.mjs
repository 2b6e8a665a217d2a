import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { pinned, start } from '../lib/processes.mjs'
import { installed } from '../lib/setup.mjs'

const CONNECTIONS = 64

/**
 * A program that sends requests as fast as it can: wrk, installed where that is possible, else autocannon.
 * @returns {{ version: string, load: (port: number, seconds: number, core?: number) => Promise<number> }} how many were answered
 */
export function loadProgram() {
  return installed('wrk') ? { version: versionOfWrk(), load: withWrk } : { version: 'autocannon', load: withAutocannon }
}

/** `wrk -v` prints the version and ends with exit code 1. */
function versionOfWrk() {
  try {
    return execFileSync('wrk', ['-v'], { stdio: 'pipe', encoding: 'utf8' })
  } catch (error) {
    return /wrk \S+/.exec(String(error.stdout))?.[0] ?? 'wrk'
  }
}

async function withWrk(port, seconds, core) {
  const options = ['-t', '1', '-c', String(CONNECTIONS), '-d', `${seconds}s`, `http://127.0.0.1:${port}/`]
  const [command, ...args] = pinned(core, 'wrk', options)
  const child = start(command, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  child.stdout.on('data', (data) => (output += data))
  await once(child, 'close')
  const requests = /(\d+) requests in /.exec(output)
  if (requests === null || /Non-2xx|Socket errors/.test(output))
    throw new Error(`wrk: not every request succeeded\n${output}`)
  return Number(requests[1])
}

async function withAutocannon(port, seconds) {
  const { default: autocannon } = await import('autocannon')
  const url = `http://127.0.0.1:${port}/`
  const run = await autocannon({ url, connections: CONNECTIONS, duration: seconds, workers: 1 })
  if (run.non2xx + run.errors > 0) throw new Error('autocannon: not every request succeeded')
  return run.requests.total
}
