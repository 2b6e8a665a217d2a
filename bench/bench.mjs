import { stopAll } from './lib/child.mjs'
import { run } from './lib/experiment.mjs'
import { absentRow } from './lib/row.mjs'
import { machine } from './lib/machine.mjs'
import { progress } from './lib/progress.mjs'
import { load, save } from './lib/results.mjs'
import { printPart, printVerdict } from './lib/print.mjs'
import { missed } from './lib/verdict.mjs'
import { writeDocs } from './docs/write.mjs'

const openers = {
  memory: async () => (await import('./memory/part.mjs')).memoryPart,
  server: async () => (await import('./server/part.mjs')).serverPart,
  redis: async () => (await import('./redis/part.mjs')).redisPart,
}

/**
 * Measures the parts, prints and keeps the results.
 * @param {import('./lib/options.mjs').Options} options
 * @returns {Promise<number>} what to exit with
 */
export async function bench({ parts, quick, write, only }) {
  process.once('SIGINT', () => process.exit(130))
  process.once('exit', stopAll)
  const measured = {}
  let failed = false
  for (const name of parts) {
    try {
      measured[name] = await measurePart(name, quick, only)
      printPart(name, measured[name])
    } catch (error) {
      failed = true
      console.error(`\n${name} could not be measured: ${error.stack}`)
    }
  }
  const rows = Object.values(measured).flatMap((part) => part.rows)
  if (parts.length > 0) printVerdict(rows)
  if (only === undefined && parts.length > 0) console.log(`\nKept in ${await save(quick, measured)}`)
  if (write) console.log(`Written: ${(await writeDocs(load(quick).parts)).join(', ')}`)
  if (failed || rows.some((row) => row.failed)) return 2
  return missed(rows).length > 0 ? 1 : 0
}

async function measurePart(name, quick, only) {
  const open = await openers[name]()
  const { experiments, absent, about = {}, close } = await open({ quick })
  try {
    const chosen = experiments.filter(({ title }) => only === undefined || title.includes(only))
    const rows = await runAll(name, chosen)
    const when = new Date().toISOString().slice(0, 10)
    return { when, quick, machine: { ...machine(), ...about }, rows: only === undefined ? [...rows, ...absent] : rows }
  } finally {
    await close?.()
  }
}

/** One that fails takes no other with it. */
function failedRow(part, { title, subjects }, error) {
  const [what] = error.message.split('\n')
  console.error(`\n${error.stack}`)
  return { ...absentRow(part, title, subjects.join(', '), what), failed: true }
}

async function runAll(name, experiments) {
  const bar = progress(experiments.reduce((sum, { subjects, rounds }) => sum + subjects.length * rounds, 0))
  try {
    const rows = []
    for (const experiment of experiments) {
      bar.begin(`${name}: ${experiment.title}`)
      rows.push(
        ...(await run(experiment, bar.tick).catch(
          /** @param {unknown} error */ (error) => [failedRow(name, experiment, error)],
        )),
      )
    }
    return rows
  } finally {
    bar.end()
  }
}
