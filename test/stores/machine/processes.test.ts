// Processes, workers of a cluster and threads that count together, and what happens when one of them ends.
import cluster from 'node:cluster'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { SocketFile } from '../../../src/stores/machine/socket-file.ts'
import {
  clusterWorker,
  forked,
  leaveSocket,
  MACHINE_WORKER,
  type MachineJob,
  type MachineProcess,
  thread,
  withSmallFiles,
} from '../../support/machine.ts'
import { afterTest } from '../../support/after-test.ts'
import { builtPackage } from '../../support/built.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

let built: string
let folder: string
beforeAll(async () => {
  built = await builtPackage()
  cluster.setupPrimary({ exec: MACHINE_WORKER, args: [] })
})
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-m-'))
  afterTest(() => rmSync(folder, { recursive: true, force: true }))
})

/** The tests after these have processes that are started by themselves. */
const kinds = {
  'workers of node:cluster': (job: MachineJob) => clusterWorker(cluster.fork, job),
  threads: thread,
}

/** Starts processes whose stores are not open yet. */
async function started(
  count: number,
  job: Partial<MachineJob> = {},
  make: (job: MachineJob) => MachineProcess = forked,
): Promise<MachineProcess[]> {
  const given = { package: built, quota: 100, options: { path: join(folder, 'l') }, ...job }
  const made = Array.from({ length: count }, () => make(given))
  afterTest(...made.map((each) => () => each.end()))
  await Promise.all(made.map((each) => each.started()))
  return made
}

type Four = [MachineProcess, MachineProcess, MachineProcess, MachineProcess]

/** Starts at most four processes and opens the store of one after the other: the first one serves. */
async function opened(...given: Parameters<typeof started>): Promise<Four> {
  const made = await started(...given)
  for (const each of made) await each.ask('open')
  return made as Four
}

async function ended({ pid }: MachineProcess): Promise<void> {
  await vi.waitFor(() => expect(() => process.kill(pid!, 0)).toThrow(/ESRCH/), 5000)
}

async function sumOf(taken: Promise<{ admitted: number; failed: number }>[]): Promise<number> {
  return (await Promise.all(taken)).reduce((sum, { admitted }) => sum + admitted, 0)
}

describe.each(Object.entries(kinds))('four %s', (_, make) => {
  it('admit exactly one quota, each time', async () => {
    const four = await started(4, { quota: 500 }, make)
    // They race for the file.
    await Promise.all(four.map((each) => each.ask('open')))
    for (let round = 0; round < 5; round++)
      expect(await sumOf(four.map((each) => each.take(200, `key ${round}`)))).toBe(500)
  })

  it('admit exactly one quota when one that is served is killed, and the others never fail', async () => {
    const [server, other, third, victim] = await opened(4, { quota: 500 }, make)
    const { admitted } = await victim.take(100)
    const rest = [server, other, third].map((each) => each.take(400))
    victim.end()
    expect(admitted + (await sumOf(rest))).toBe(500)
    for (const { failed } of await Promise.all(rest)) expect(failed).toBe(0)
  })
})

it('bursts of three processes with guards use one quota', async () => {
  const all = await opened(3)
  const at = Date.now() + 1000
  const taken = all.map((each) => each.ask<{ admitted: number; local: number }>('burst', { times: 800, at }))
  const sums = await Promise.all(taken)
  expect(sums.map(({ local }) => local)).toEqual([0, 0, 0])
  expect(sums.reduce((sum, { admitted }) => sum + admitted, 0)).toBe(100)
})

describe('when the process that counts', () => {
  it('closes its store, the youngest process has its counts, and nobody notices', async () => {
    const [first, second] = await opened(2, { quota: 300 })
    const [youngest] = await opened(1, { quota: 300 })
    expect((await first.take(50)).admitted).toBe(50)
    const taking = [second.take(200), youngest.take(200)]
    await first.ask('close')
    expect(await sumOf(taking)).toBe(250)
    for (const { failed } of await Promise.all(taking)) expect(failed).toBe(0)
    // The one that counts now ends, so the others see who it is.
    youngest.end()
    await vi.waitFor(async () => expect((await second.take(1)).failed).toBe(0), 2000)
    expect(await second.warningCodes()).toEqual(['SLUICE_COUNTS_LOST'])
  })

  it('closes its store, a process that has no limits yet has its counts', async () => {
    const [first, second] = await opened(2, { quota: 300 })
    expect((await first.take(50)).admitted).toBe(50)
    await first.ask('close')
    expect((await second.take(300)).admitted).toBe(250)
    expect(await second.warningCodes()).toEqual([])
  })

  it('has nothing left to do and ends, another one has its counts', async () => {
    const [first, second] = await opened(2, { quota: 300 })
    expect((await first.take(50)).admitted).toBe(50)
    await first.ask('finish')
    await ended(first)
    expect(await second.take(300)).toEqual({ admitted: 250, failed: 0 })
    expect(await second.warningCodes()).toEqual([])
  })

  it.each([
    ['its last decisions are in the snapshot', 5, true],
    ['and has counted nothing, nobody warns', 0, false],
  ])('calls process.exit, %s', async (_, times, hasSnapshot) => {
    const options = { path: join(folder, 'l'), ...(hasSnapshot && { snapshot: join(folder, 'limits.json') }) }
    const [first] = await opened(1, { quota: 10, options })
    void first.ask('exit', { times })
    await ended(first)
    const [second] = await opened(1, { quota: 10, options })
    expect((await second.take(10)).admitted).toBe(10 - times)
    expect(await second.warningCodes()).toEqual([])
  })

  it('is killed, another one counts within a second, and one warning says that counts are lost', async () => {
    const [server, ...others] = await opened(4, { quota: 10 })
    await server.take(10)
    server.end()
    const since = performance.now()
    await vi.waitFor(async () => expect((await others[0].take(1)).failed).toBe(0), { timeout: 5000, interval: 5 })
    expect(performance.now() - since).toBeLessThan(1000)
    expect(await sumOf(others.map((each) => each.take(10)))).toBe(9)
    const codes = await Promise.all(others.map((each) => each.warningCodes()))
    expect(codes.flat()).toEqual(['SLUICE_COUNTS_LOST'])
  })

  it('is killed, a snapshot has all that was counted a second before, and nobody warns', async () => {
    const options = { path: join(folder, 'l'), snapshot: join(folder, 'limits.json') }
    const [server, other, third] = await opened(3, { quota: 40, options })
    for (let round = 0; round < 3; round++) expect((await other.take(10, `round ${round}`)).admitted).toBe(10)
    await pause(1000)
    server.end()
    await vi.waitFor(async () => expect((await third.take(1, 'x')).failed).toBe(0), 5000)
    for (let round = 0; round < 3; round++)
      expect(await sumOf([other.take(40, `round ${round}`), third.take(40, `round ${round}`)])).toBe(30)
    expect([...(await other.warningCodes()), ...(await third.warningCodes())]).toEqual([])
  })

  it('finds no room for the whole snapshot, it keeps the last one that is whole', async () => {
    const snapshot = join(folder, 'limits.json')
    const [server] = await opened(1, { options: { path: join(folder, 'l'), snapshot } }, withSmallFiles)
    await server.take(1, 'ann')
    await vi.waitFor(() => expect(readFileSync(snapshot, 'utf8')).toContain('ann'), 2000)
    for (let i = 0; i < 100; i++) await server.take(1, `key ${i}`)
    await vi.waitFor(async () => expect(await server.warningCodes()).toEqual(['SLUICE_SNAPSHOT']), 3000)
    expect(readFileSync(snapshot, 'utf8')).toMatch(/\["end"\]\]\n$/)
  })

  it('is stopped, a guard decides, and the counts are there when it goes on', async () => {
    const [server, other] = await opened(2, { quota: 1_000_000 })
    const during = other.ask<{ by: string[]; longest: number }>('guarded', { ms: 4000 })
    await pause(500)
    process.kill(server.pid!, 'SIGSTOP')
    await pause(1500)
    process.kill(server.pid!, 'SIGCONT')
    const { by, longest } = await during
    expect(by[0]).toBe('store')
    expect(by).toContain('local')
    expect(by.at(-1)).toBe('store')
    expect(longest).toBeLessThan(1000)
    expect([...(await server.warningCodes()), ...(await other.warningCodes())]).not.toContain('SLUICE_COUNTS_LOST')
  })
})

it('never has two servers after a race for the file of a process that was killed', async () => {
  const path = join(folder, 'l')
  const racers = await started(4, { quota: 10, options: { path } })
  const file = new SocketFile(path)
  for (let round = 0; round < 40; round++) {
    await leaveSocket(file.path)
    expect(existsSync(file.path)).toBe(true)
    await Promise.all(racers.map((each) => each.ask('open')))
    // Two servers would admit two quotas.
    const taken = await Promise.all(racers.map((each) => each.take(10)))
    expect(taken).toHaveLength(4)
    expect(taken.reduce((sum, { admitted }) => sum + admitted, 0)).toBe(10)
    await Promise.all(racers.toReversed().map((each) => each.ask('close')))
    expect(readdirSync(folder)).toEqual([])
  }
})
