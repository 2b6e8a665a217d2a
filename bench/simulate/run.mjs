// `npm run simulate`: simulates leases on sites of 1 to 10,000 processes, and writes docs/internals/leases.md.
import { readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { printTable } from '../lib/print.mjs'
import { messageFrom, startWorker, stopAll } from '../lib/processes.mjs'
import { formatted } from '../../build/format.mjs'
import { gridOf, rowOf } from './grid.mjs'
import { KEPT, tablesOf, writePage } from './page.mjs'

const HELP = `npm run simulate -- [options]

--quick   a small part of the grid, which takes seconds and only prints
--part    only one part, which only prints: oneKey, begin, growing, options, manyKeys or algorithms
--tables  simulates nothing, and prints all tables of the last whole run, from bench/results/simulation.json
--page    simulates nothing, and writes the page and its plots from bench/results/simulation.json again
--seed    the seed of the requests. Default: 1
--json    prints the results as JSON
--help    this text

A whole run takes about ten minutes on two cores, and writes a part of its tables into docs/internals/leases.md, its plots, and bench/results/simulation.json. Equal seeds
give equal figures on every machine.`

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const WORKER = new URL('./cells.worker.mjs', import.meta.url)
/** Points that one worker simulates. */
const BATCH = 12

/** @returns the figures of the last whole run */
function kept() {
  return JSON.parse(readFileSync(KEPT, 'utf8'))
}

function print(results) {
  for (const table of tablesOf(results)) printTable(table)
}

function readOptions(args) {
  const { values } = parseArgs({
    args,
    options: {
      quick: { type: 'boolean', default: false },
      part: { type: 'string' },
      tables: { type: 'boolean', default: false },
      page: { type: 'boolean', default: false },
      seed: { type: 'string', default: '1' },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  const seed = Number(values.seed)
  if (!Number.isSafeInteger(seed) || seed <= 0)
    throw new Error(`--seed: expected a positive integer, got ${JSON.stringify(values.seed)}`)
  return { ...values, seed }
}

/** The expected work of a point, to begin with the longest. */
function workOf({ cells }) {
  return cells.reduce((sum, { rate, seconds, warmUp }) => sum + rate * (seconds + warmUp), 0)
}

/** Simulates points in separate processes, two at a time. Results are in the order of the points. */
async function runAll(points) {
  const results = []
  const order = points
    .map((point, index) => ({ ...point, index }))
    .toSorted((one, other) => workOf(one) - workOf(other))
  let left = order.length
  async function lane() {
    while (order.length > 0) {
      // Long points alone, so that both cores are busy until the end.
      const batch = order.splice(workOf(order.at(-1)) > 1_000_000 ? -1 : -BATCH)
      const child = startWorker(WORKER, { root: ROOT, cells: batch.flatMap(({ cells }) => cells) })
      const figures = await messageFrom(child, 1200)
      child.kill('SIGKILL')
      for (const point of batch) results[point.index] = rowOf(point, figures.splice(0, point.cells.length))
      left -= batch.length
      console.error(`${new Date().toISOString().slice(11, 19)} ${left} of ${points.length} points left`)
    }
  }
  await Promise.all(Array.from({ length: Math.min(2, availableParallelism()) }, lane))
  return results
}

async function simulateGrid(options) {
  const grid = Object.entries(gridOf(options)).filter(([name]) => name === (options.part ?? name))
  if (grid.length === 0) throw new Error(`--part: there is no part ${JSON.stringify(options.part)}`)
  const rows = await runAll(grid.flatMap(([, points]) => points))
  const parts = Object.fromEntries(grid.map(([name, points]) => [name, rows.splice(0, points.length)]))
  return { when: new Date().toISOString().slice(0, 10), seed: options.seed, quick: options.quick, parts }
}

/** No process may use a unit that was not charged before. */
function assertCharged({ parts }) {
  const row = Object.values(parts)
    .flat()
    .find((each) => Object.values(each).some(({ overdrawn }) => overdrawn > 0))
  if (row !== undefined) throw new Error(`Units were used that were not charged: ${JSON.stringify(row)}`)
}

async function simulation(options) {
  process.once('exit', stopAll)
  const results = await simulateGrid(options)
  assertCharged(results)
  if (options.json) console.log(JSON.stringify(results))
  else print(results)
  if (options.quick || options.part !== undefined) return
  writeFileSync(KEPT, await formatted(JSON.stringify(results, rounded), KEPT))
  console.error(`Written: ${[KEPT, ...(await writePage(results))].join(', ')}`)
}

/** Five digits are more than the page shows. */
function rounded(_key, value) {
  return typeof value === 'number' ? Number(value.toPrecision(5)) : value
}

try {
  const options = readOptions(process.argv.slice(2))
  if (options.help) console.log(HELP)
  else if (options.tables) print(kept())
  else if (options.page) console.error(`Written: ${(await writePage(kept())).join(', ')}`)
  else await simulation(options)
} catch (error) {
  console.error(error.message)
  process.exitCode = 2
}
