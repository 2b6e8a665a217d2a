import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { figure } from '../lib/experiment.mjs'
import { cores } from '../lib/machine.mjs'
import { pinned } from '../lib/processes.mjs'
import { budget, oursIn, row } from '../lib/row.mjs'
import { writeLog } from './log.mjs'

/** The full log has about a gigabyte. */
const FULL = { rounds: 3, lines: 5_500_000, addresses: 270_000 }
const QUICK = { rounds: 1, lines: 500_000, addresses: 50_000 }

const COMMANDS = {
  'replay, one limit': ['replay', '--limit', 'gcra 100/1m burst=20'],
  'replay, two limits, one of a path': [
    'replay',
    '--limit',
    'gcra 100/1m',
    '--limit',
    'slidingWindowLog 5/15m path=/login',
  ],
  suggest: ['suggest'],
}

/** Prints the peak of the memory of the command as the last line of the standard error. */
const REPORT = `process.on('exit', () => process.stderr.write('\\n' + process.resourceUsage().maxRSS))`

/** Logs: lines per second of the command line, and its memory. Earlier builds have no such commands. */
export async function openReplay({ builds, quick }) {
  const { rounds, ...size } = quick ? QUICK : FULL
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
  const log = join(folder, 'access.log')
  await writeLog(log, size)
  const able = builds.filter(({ root }) => existsSync(join(root, 'dist/src/cli/replay')))
  const experiments = Object.entries(COMMANDS).map(([title, words]) => ({
    title,
    rounds,
    steps: able.map(({ name, root }) => ({ subject: name, measure: () => measured(root, words, log, size.lines) })),
    rows: (samples) => rowsOf(title, samples, statSync(log).size),
  }))
  return { experiments, close: () => rmSync(folder, { recursive: true, force: true }) }
}

function measured(root, [command, ...options], log, lines) {
  const program = [`--import=data:text/javascript,${encodeURIComponent(REPORT)}`, join(root, 'dist/src/cli/sluice.js')]
  const [file, ...args] = pinned(cores().node, process.execPath, [...program, command, log, ...options, '--json'])
  const began = performance.now()
  const { status, stdout, stderr } = spawnSync(file, args, { encoding: 'utf8', maxBuffer: 2 ** 26 })
  const seconds = (performance.now() - began) / 1000
  if (status !== 0 || JSON.parse(stdout).log.requests !== lines) throw new Error(`${command} failed: ${stderr}`)
  return { rate: lines / seconds, memory: Number(stderr.split('\n').at(-1)) / 1024 }
}

function rowsOf(title, samples, bytes) {
  if (Object.keys(samples).length === 0) return []
  const { rate, memory } = samples[oursIn(samples)]
  const group = `Logs, ${Math.round(bytes / 1e6)} MB`
  const fast = budget('≥ 300,000 lines a second', rate, { atLeast: 300_000 })
  const small = budget('≤ 600 MB', memory, { atMost: 600 })
  return [
    row({ group, title, unit: 'lines/s', better: 'more', values: figure(samples, 'rate'), budgets: [fast] }),
    row({ group, title: `${title}, memory`, unit: 'MB', values: figure(samples, 'memory'), budgets: [small] }),
  ]
}
