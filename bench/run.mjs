// `npm run bench`: measures the package, prints the figures and keeps them. `npm run bench -- --help` lists the options.
import { writeDocs } from './docs/write.mjs'
import { chooseBuilds } from './lib/builds.mjs'
import { runAll } from './lib/experiment.mjs'
import { machine } from './lib/machine.mjs'
import { readOptions } from './lib/options.mjs'
import { stopAll } from './lib/processes.mjs'
import { load, save } from './lib/results.mjs'
import { installPeers } from './lib/setup.mjs'
import { disturbances } from './lib/undisturbed.mjs'
import { missedBudgets, slowerRows } from './lib/row.mjs'
import { printPart, printSummary } from './lib/print.mjs'

const openers = {
  memory: async () => (await import('./memory/part.mjs')).openMemory,
  server: async () => (await import('./server/part.mjs')).openServer,
  redis: async () => (await import('./redis/part.mjs')).openRedis,
  leases: async () => (await import('./leases/part.mjs')).openLeases,
  databases: async () => (await import('./databases/part.mjs')).openDatabases,
  service: async () => (await import('./service/part.mjs')).openService,
  machine: async () => (await import('./machine/part.mjs')).openMachine,
  replay: async () => (await import('./replay/part.mjs')).openReplay,
}

/** Measures one part with all builds in one interleaved run. */
async function measurePart(name, builds, { quick, only }) {
  const open = await openers[name]()
  const { experiments, tools = {}, close } = await open({ builds, quick })
  try {
    const chosen = experiments.filter(({ title }) => only === undefined || title.includes(only))
    const began = performance.now()
    const { rows, failures } = await runAll(name, chosen)
    const when = new Date().toISOString().slice(0, 10)
    const seconds = Math.round((performance.now() - began) / 1000)
    const disturbed = disturbances()
    const versions = Object.fromEntries(builds.map((build) => [build.name, build.version]))
    return {
      when,
      seconds,
      quick,
      builds: versions,
      machine: { ...machine(), ...tools, ...(disturbed && { disturbed }) },
      rows,
      failures,
    }
  } finally {
    await close?.()
  }
}

/** Returns the exit code: 2 when something could not be measured, 1 when a budget is missed or a row is slower. */
async function bench(options) {
  process.once('SIGINT', () => process.exit(130))
  process.once('SIGTERM', () => process.exit(143))
  process.once('exit', stopAll)
  const measured = {}
  if (options.parts.length > 0) {
    installPeers()
    const builds = chooseBuilds(options.against)
    for (const name of options.parts) {
      measured[name] = await measurePart(name, builds, options)
      printPart(name, measured[name])
    }
    printSummary(measured)
    if (options.only === undefined) console.log(`\nWritten: ${await save(options.quick, measured)}`)
  }
  if (options.write) console.log(`Written: ${(await writeDocs(load(options.quick).parts)).join(', ')}`)
  return exitCode(Object.values(measured))
}

function exitCode(parts) {
  if (parts.some(({ failures }) => failures.length > 0)) return 2
  const rows = parts.flatMap(({ rows }) => rows)
  return missedBudgets(rows).length > 0 || slowerRows(rows).length > 0 ? 1 : 0
}

const options = readOptions(process.argv.slice(2))
if (options !== undefined) process.exitCode = await bench(options)
