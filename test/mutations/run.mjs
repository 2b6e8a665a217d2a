// Do the tests notice mistakes? Makes one small mistake at a time in a copy of this repository and runs the tests that should
// notice it. CONTRIBUTING.md lists the options.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { denyCache } from './deny-cache.mjs'
import { guard } from './guard.mjs'
import { http } from './http.mjs'
import { leases } from './lease.mjs'
import { limits } from './limits.mjs'
import { lua } from './lua.mjs'
import { redis } from './redis.mjs'
import { rules } from './rules.mjs'
import { logs } from './logs.mjs'
import { services } from './service.mjs'
import { operations } from './operations.mjs'
import { site } from './site.mjs'
import { slots } from './slots.mjs'
import { sql } from './sql.mjs'
import { stores } from './stores.mjs'
import { record, recorded, row, tables } from './report.mjs'
import { failure, interruption } from './suite.mjs'
import { misfits, Tree } from './tree.mjs'
import { typescript } from './typescript.mjs'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    fit: { type: 'boolean', default: false },
    missing: { type: 'boolean', default: false },
    record: { type: 'boolean', default: false },
    workers: { type: 'string', default: '2' },
  },
})
const isMissing = (mutation) => !values.missing || recorded(mutation) === undefined
const isChosen = ({ file }) => positionals.length === 0 || positionals.some((each) => file.includes(each))
const all = [
  ...typescript,
  ...denyCache,
  ...redis,
  ...guard,
  ...sql,
  ...http,
  ...rules,
  ...limits,
  ...slots,
  ...leases,
  ...lua,
  ...site,
  ...logs,
  ...services,
  ...operations,
  ...stores,
]
const mutations = all.filter((each) => isChosen(each) && isMissing(each))

/** For all tests of scopes, without a mistake. A failure must be repeatable, and these tests take longer. */
const UNCHANGED = { limitMs: 1_200_000, retry: 1 }

const wrong = misfits(mutations)
for (const each of wrong) console.error(each)
if (wrong.length > 0) process.exitCode = 1
else if (values.fit) console.log(`${mutations.length} mistakes fit the code`)
else process.exitCode = await run()

/** Returns the exit code. */
async function run() {
  const trees = Array.from({ length: Number(values.workers) }, () => new Tree())
  try {
    await verifyUnchanged(trees[0])
    const results = []
    const queue = mutations.values()
    await Promise.all(trees.map((tree) => work(tree, queue, results)))
    return await report(results)
  } finally {
    for (const tree of trees) tree.remove()
  }
}

/** Takes mutations from a queue that several workers share, until it is empty or the run is interrupted. */
async function work(tree, queue, results) {
  for (const mutation of queue) {
    let test
    try {
      test = await tree.during(mutation, () => firstToNotice(tree.folder, mutation))
    } catch (error) {
      // It counts as a mistake that no test notices. The others go on.
      console.error(`${mutation.file}, ${mutation.what}: ${error.message}`)
    }
    if (interruption.aborted) return
    results.push({ mutation, test })
    console.error(`${mutation.file} ${row(mutation, test)}`)
  }
}

/** Tries the tests of `npm test`, then the others. In each part, the file that noticed the mistake last time comes first. */
async function firstToNotice(folder, mutation) {
  for (const part of ['quick', 'rest']) {
    for (const scope of scopes(folder, mutation)) {
      const test = await failure(folder, scope, { part })
      if (test !== undefined) return test
    }
  }
  return undefined
}

function scopes(folder, mutation) {
  const { scope } = mutation
  const likely = recorded(mutation)?.file
  const isInScope = likely !== undefined && scope.files.some((each) => likely.startsWith(each))
  const isPart = isInScope && scope.files.join() !== likely && existsSync(join(folder, likely))
  return isPart ? [{ ...scope, files: [likely] }, scope] : [scope]
}

async function report(results) {
  const survivors = results.filter(({ test }) => test === undefined).length
  if (values.record) await record(results, all)
  else console.log(tables(results))
  console.error(`${results.length} mistakes, ${survivors} not noticed`)
  return survivors === 0 ? 0 : 1
}

/** Throws if a test fails without any mistake: it would notice nothing. */
async function verifyUnchanged({ folder }) {
  for (const name of new Set(mutations.map(({ scope }) => scope.name))) {
    const files = [...new Set(mutations.flatMap(({ scope }) => (scope.name === name ? scope.files : [])))]
    const test = await failure(folder, { files, name }, UNCHANGED)
    if (test !== undefined) throw new Error(`A test fails without any mistake: ${test.file}: ${test.title}`)
  }
}
