import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pinned, start } from '../lib/processes.mjs'
import { installed } from '../lib/setup.mjs'

const CONNECTIONS = 64
const ADDRESSES = 10_000
const HEADERS = { 'Content-Type': 'application/json' }

function questionOf(i) {
  return JSON.stringify({ input: { ip: `10.0.${i >> 8}.${i & 255}`, method: 'GET', path: '/api/orders' } })
}

/** Sends questions about 10,000 addresses in turn. */
const SCRIPT = `
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local count = 0
request = function()
  count = (count + 7919) % ${ADDRESSES}
  local ip = "10.0." .. math.floor(count / 256) .. "." .. (count % 256)
  return wrk.format(nil, "/decide", nil, '{"input":{"ip":"' .. ip .. '","method":"GET","path":"/api/orders"}}')
end
`

/**
 * A program that sends questions as fast as it can: wrk, installed where that is possible, else autocannon.
 * @param directory where the script of wrk is written
 * @returns {{ version: string, load: (port: number, seconds: number, core?: number) => Promise<number> }} how many were answered
 */
export function decideLoad(directory) {
  if (!installed('wrk')) return { version: 'autocannon', load: withAutocannon }
  const script = join(directory, 'decide.lua')
  writeFileSync(script, SCRIPT)
  return { version: 'wrk', load: (port, seconds, core) => withWrk(script, port, seconds, core) }
}

async function withWrk(script, port, seconds, core) {
  const options = ['-t', '1', '-c', String(CONNECTIONS), '-d', `${seconds}s`, '-s', script, `http://127.0.0.1:${port}`]
  const [command, ...args] = pinned(core, 'wrk', options)
  const child = start(command, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  child.stdout.on('data', (data) => (output += data))
  await once(child, 'close')
  const requests = /(\d+) requests in /.exec(output)
  if (requests === null || /Non-2xx|Socket errors/.test(output))
    throw new Error(`wrk: not every question was answered with 200\n${output}`)
  return Number(requests[1])
}

async function withAutocannon(port, seconds) {
  const { default: autocannon } = await import('autocannon')
  const requests = Array.from({ length: ADDRESSES }, (_, i) => ({
    method: 'POST',
    path: '/decide',
    headers: HEADERS,
    body: questionOf(i),
  }))
  const run = await autocannon({
    url: `http://127.0.0.1:${port}`,
    requests,
    connections: CONNECTIONS,
    duration: seconds,
  })
  if (run.non2xx + run.errors > 0) throw new Error('autocannon: not every question was answered with 200')
  return run.requests.total
}
