import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { figure } from '../lib/experiment.mjs'
import { cores } from '../lib/machine.mjs'
import { pinned } from '../lib/processes.mjs'
import { budget, oursIn, row } from '../lib/row.mjs'
import { writeLog } from './log.mjs'

/** The full log in the combined format has about a gigabyte. */
const FULL = { rounds: 3, lines: 5_500_000, addresses: 270_000 }
const QUICK = { rounds: 1, lines: 500_000, addresses: 50_000 }

const ONE_LIMIT = ['replay', '--limit', 'gcra 100/1m burst=20']
const TWO_LIMITS = ['replay', '--limit', 'gcra 100/1m', '--limit', 'slidingWindowLog 5/15m path=/login']

/** What is measured on a log of each format. JSON lines are longer, so their logs have fewer of them. */
const LOGS = {
  combined: {
    share: 1,
    commands: {
      'replay, one limit': ONE_LIMIT,
      'replay, two limits, one of a path': TWO_LIMITS,
      suggest: ['suggest'],
    },
  },
  'pino-http': { share: 0.4, commands: { 'replay, pino-http': ONE_LIMIT } },
  caddy: { share: 0.4, commands: { 'replay, Caddy': ONE_LIMIT } },
}

/** Prints the peak of the memory of the command as the last line of the standard error. */
const REPORT = `process.on('exit', () => process.stderr.write('\\n' + process.resourceUsage().maxRSS))`

/** Logs: lines per second of the command line, from its start to its end, and its memory. Earlier builds have no such commands. */
export async function openReplay({ builds, quick }) {
  const size = quick ? QUICK : FULL
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
  const able = builds.filter(({ root }) => existsSync(join(root, 'src/cli/replay')))
  const experiments = Object.entries(LOGS).flatMap(([format, { share, commands }]) => {
    const log = { format, path: join(folder, `${format}.log`), ...size, lines: size.lines * share }
    return Object.entries(commands).map(([title, words]) => experiment(title, words, log, able))
  })
  return { experiments, close: () => rmSync(folder, { recursive: true, force: true }) }
}

/** The log is written when it is first needed, so that `--only` writes no other. */
function experiment(title, words, log, builds) {
  return {
    title,
    rounds: log.rounds,
    steps: builds.map(({ name, root }) => ({ subject: name, measure: () => measured(root, words, log) })),
    begin: async () => {
      if (!existsSync(log.path)) await writeLog(log.path, log)
    },
    rows: (samples) => rowsOf(title, samples),
  }
}

function measured(root, [command, ...options], { path, lines }) {
  const program = [`--import=data:text/javascript,${encodeURIComponent(REPORT)}`, join(root, 'dist/src/cli/sluice.js')]
  const [file, ...args] = pinned(cores().node, process.execPath, [...program, command, path, ...options, '--json'])
  const began = performance.now()
  const { status, stdout, stderr } = spawnSync(file, args, { encoding: 'utf8', maxBuffer: 2 ** 26 })
  const seconds = (performance.now() - began) / 1000
  if (status !== 0 || JSON.parse(stdout).log.requests !== lines) throw new Error(`${command} failed: ${stderr}`)
  const megabytes = statSync(path).size / 1e6
  return { rate: lines / seconds, speed: megabytes / seconds, memory: Number(stderr.split('\n').at(-1)) / 1024 }
}

function rowsOf(title, samples) {
  if (Object.keys(samples).length === 0) return []
  const { rate, memory } = samples[oursIn(samples)]
  const group = 'Logs'
  const fast = budget('≥ 300,000 lines a second', rate, { atLeast: 300_000 })
  const small = budget('≤ 600 MB', memory, { atMost: 600 })
  return [
    row({ group, title, unit: 'lines/s', better: 'more', values: figure(samples, 'rate'), budgets: [fast] }),
    row({ group, title: `${title}, speed`, unit: 'MB/s', better: 'more', values: figure(samples, 'speed') }),
    row({ group, title: `${title}, memory`, unit: 'MB', values: figure(samples, 'memory'), budgets: [small] }),
  ]
}
