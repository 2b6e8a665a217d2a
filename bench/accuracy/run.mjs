// `npm run accuracy`: compares every algorithm with the exact sliding log, and writes docs/internals/accuracy.md.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { machine } from '../lib/machine.mjs'
import { messageFrom, startWorker, stopAll } from '../lib/processes.mjs'
import { formatted } from '../../build/format.mjs'
import { printTable } from '../lib/print.mjs'
import { writePage, tablesOf } from './page.mjs'
import { subjects } from './subjects.mjs'

const HELP = `npm run accuracy -- [options]

--requests  how many requests each algorithm decides. Default: 100000000, which takes about half an hour on two cores
--seed      the seed of the traffic. Default: 1
--decisions compares only decisions, and measures neither time nor memory
--costs     measures only time and memory again, and keeps the decisions of the last whole run
--json      prints the results as JSON
--help      this text

A run of 100 million requests or more writes docs/internals/accuracy.md and its plots. A shorter one only prints.`

const WHOLE = 100_000_000
const ROOT = new URL('../../', import.meta.url)
const ALGORITHM = new URL('./algorithm.worker.mjs', import.meta.url)
const COST = new URL('./cost.worker.mjs', import.meta.url)
const TWO_COUNTERS = new URL('./two-counters.worker.mjs', import.meta.url)
const THRESHOLDS = [
  { quota: 10, seconds: 1 },
  { quota: 100, seconds: 60 },
  { quota: 1000, seconds: 60 },
  { quota: 1000, seconds: 3600 },
]

function integer(name, text) {
  const value = Number(text)
  if (Number.isSafeInteger(value) && value > 0) return value
  throw new Error(`--${name}: expected a positive integer, got ${JSON.stringify(text)}`)
}

function readOptions(args) {
  const { values } = parseArgs({
    args,
    options: {
      requests: { type: 'string', default: String(WHOLE) },
      seed: { type: 'string', default: '1' },
      decisions: { type: 'boolean', default: false },
      costs: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  return { ...values, requests: integer('requests', values.requests), seed: integer('seed', values.seed) }
}

/** Runs jobs, so many at a time. Results are in the order of the jobs. */
async function runAll(jobs, lanes) {
  const results = []
  const waiting = jobs.map((each, index) => ({ ...each, index })).toReversed()
  async function lane() {
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      console.error(`${new Date().toISOString().slice(11, 19)} ${next.title}`)
      const child = startWorker(next.file, next.job, { flags: ['--expose-gc'] })
      results[next.index] = await messageFrom(child, 7200)
      child.kill('SIGKILL')
    }
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  return results
}

const names = Object.keys(subjects)

/** The results of the subjects, with their names. */
function named(results) {
  return names.map((name, index) => Object.assign({ name }, results[index]))
}

/** Decisions do not depend on the machine, so they are compared on two cores at once. */
async function decisions({ root, requests, seed }) {
  const algorithmJobs = names.map((name) => ({ title: name, file: ALGORITHM, job: { name, root, requests, seed } }))
  const counterJobs = THRESHOLDS.map((threshold) => ({
    title: `two counters, ${threshold.quota} in ${threshold.seconds} s`,
    file: TWO_COUNTERS,
    job: { ...threshold, requests, seed },
  }))
  const results = await runAll([...algorithmJobs, ...counterJobs], Math.min(2, availableParallelism()))
  return {
    when: new Date().toISOString().slice(0, 10),
    requests,
    seed,
    algorithms: named(results),
    counters: THRESHOLDS.map((threshold, index) => Object.assign({}, threshold, results[names.length + index])),
  }
}

/** Time and memory are measured one algorithm at a time. */
async function costs({ root, requests, seed }) {
  const job = { root, requests: Math.min(requests, 10_000_000), seed }
  const jobs = names.map((name) => ({ title: `cost of ${name}`, file: COST, job: { ...job, name } }))
  const results = await runAll(jobs, 1)
  return { machine: machine(), costs: named(results) }
}

const KEPT = fileURLToPath(new URL('../results/accuracy.json', import.meta.url))

function keptResults() {
  return existsSync(KEPT) ? JSON.parse(readFileSync(KEPT, 'utf8')) : {}
}

async function keep(results) {
  writeFileSync(KEPT, await formatted(JSON.stringify(results), KEPT))
  return [KEPT, ...(await writePage(results))]
}

async function measure(options) {
  const given = { root: fileURLToPath(ROOT), requests: options.requests, seed: options.seed }
  const kept = options.costs || (options.decisions && given.requests >= WHOLE) ? keptResults() : {}
  const decided = options.costs ? {} : await decisions(given)
  const measured = options.decisions ? {} : await costs(given)
  return { machine: machine(), costs: [], ...kept, ...decided, ...measured }
}

async function accuracy(options) {
  process.once('exit', stopAll)
  const results = await measure(options)
  const log = results.algorithms.find(({ name }) => name === 'slidingWindowLog')
  if (log.tooStrict + log.tooLenient > 0) throw new Error('slidingWindowLog differs from the exact log')
  if (options.json) console.log(JSON.stringify(results))
  else for (const table of tablesOf(results)) printTable(table)
  if (results.requests >= WHOLE) console.error(`Written: ${(await keep(results)).join(', ')}`)
}

try {
  const options = readOptions(process.argv.slice(2))
  if (options.help) console.log(HELP)
  else await accuracy(options)
} catch (error) {
  console.error(error.message)
  process.exitCode = 2
}
