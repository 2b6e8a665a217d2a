import { setTimeout as pause } from 'node:timers/promises'
import { Fleet } from './fleet.mjs'
import { Ledger } from './ledger.mjs'
import { DEADLINE, PROCESSES, QUOTAS, SPECS } from './limiters.mjs'
import { Server } from './server.mjs'

const FAULTS = { freeze, kill, flush, restart }

/**
 * Loads one Redis from several processes for a time, with one fault after another.
 * @param {{ home: string, seconds: number, log: (text: string) => void }} options `home`: the folder of the built package
 */
export async function soak({ home, seconds, log }) {
  const server = await Server.start()
  const ledger = new Ledger()
  const fleet = new Fleet(PROCESSES, { home, port: server.port }, ledger)
  const run = { server, fleet, log, losses: [], changes: [], heaps: [], recoveries: [], problems: [] }
  try {
    await fleet.ready()
    run.changes.push({ at: 0, quota: QUOTAS[0] })
    const end = performance.now() + seconds * 1000
    for (let turn = 0; performance.now() < end; turn++) await oneTurn(run, turn)
    run.problems.push(...(await fleet.stop()))
  } finally {
    fleet.kill()
    server.remove()
  }
  return { ...run, admitted: ledger.check(SPECS, run) }
}

/** Some time without a fault, in which a quota changes; then a fault, and the way back. */
async function oneTurn(run, turn) {
  const names = Object.keys(FAULTS)
  const name = names[turn % names.length]
  await pause(random(300, 700))
  await changeQuota(run, turn + 1)
  await pause(random(300, 700))
  await measureHeap(run)
  const back = await FAULTS[name](run)
  const at = await run.fleet.recovered()
  if (at === undefined) run.problems.push(`after ${name}: Redis is not asked again`)
  else run.recoveries.push({ name, ms: Math.max(0, at - back) })
  run.log(`${name}: ${at === undefined ? 'not asked again' : `asked again after ${Math.max(0, at - back)} ms`}`)
  // Late answers arrive and are undone.
  await pause(300)
}

function random(from, to) {
  return from + Math.floor(Math.random() * (to - from))
}

/** Changes a quota under load. No process asks by the old quota when another asks by the new one. */
async function changeQuota({ fleet, changes }, turn) {
  const quota = QUOTAS[turn % QUOTAS.length]
  await fleet.ask({ type: 'hold' }, 'held')
  changes.push({ at: Date.now(), quota })
  fleet.send({ type: 'change', quota })
}

async function measureHeap({ fleet, heaps }) {
  const answers = await fleet.ask({ type: 'rest' }, 'heap')
  heaps.push(answers.map(({ bytes }) => bytes))
}

async function untilDegraded({ fleet, problems }, name) {
  for (let tries = 0; tries < 500 && !fleet.isDegraded; tries++) await pause(10)
  if (!fleet.isDegraded) problems.push(`after ${name}: a process goes on to ask Redis`)
}

async function freeze(run) {
  run.server.freeze()
  await untilDegraded(run, 'freeze')
  await pause(random(300, 1200))
  run.server.thaw()
  return Date.now()
}

async function kill(run) {
  await run.server.kill()
  run.losses.push(Date.now())
  await untilDegraded(run, 'kill')
  await pause(random(300, 1200))
  await run.server.start()
  return Date.now()
}

/** Programs are deleted three times in a row. That is no outage. */
async function flush(run) {
  for (let times = 0; times < 3; times++) {
    await run.server.flushPrograms()
    await pause(100)
  }
  return Date.now()
}

/** So short an outage that some processes may not notice it. */
async function restart(run) {
  await run.server.shutDown()
  run.losses.push(Date.now())
  await run.server.start()
  const back = Date.now()
  await pause(2 * DEADLINE)
  return back
}
