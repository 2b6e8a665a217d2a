import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { pinned } from '../lib/child.mjs'
import { row } from '../lib/row.mjs'

const SCRIPT = readFileSync(new URL('./floor.lua', import.meta.url), 'utf8')

/** A script of one limit, asked for by a client that does nothing else. */
export function scriptFloor(group, { rounds, scriptCalls }, server, core) {
  const name = 'floor: one-limit script'
  return {
    title: 'one-limit script, redis-benchmark',
    subjects: [name],
    rounds,
    measure: async () => ({ rate: await benchmark(server, scriptCalls, core) }),
    rows: (samples) => [
      row({ group, title: 'redis-benchmark, 50 × 16', unit: '1/s', values: { [name]: samples[name].rate } }),
    ],
  }
}

async function benchmark({ port, client }, calls, core) {
  await client.flushall()
  const sha = await client.script('LOAD', SCRIPT)
  const load = ['-h', '127.0.0.1', '-p', port, '-c', 50, '-P', 16, '-n', calls, '-r', 10_000, '--csv'].map(String)
  const script = ['evalsha', sha, '1', 'user-__rand_int__', '1000', '1000000000000']
  const [command, ...args] = pinned(core, 'redis-benchmark', [...load, ...script])
  const { stdout } = await promisify(execFile)(command, args, { timeout: 120_000 })
  // The last line: the command, then requests a second, each in quotes.
  const figures = stdout.trim().split('\n').at(-1).split(',')
  return Number(figures.find((text) => /^"\d+\.\d+"$/.test(text)).slice(1, -1))
}
