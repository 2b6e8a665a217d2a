import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

interface Row {
  readonly group: string
  readonly title: string
  readonly values: Readonly<Record<string, { readonly samples: readonly number[] }>>
  readonly budgets: readonly { readonly text: string; readonly verdict: string }[]
}

interface Experiment {
  readonly title: string
}

interface Server {
  close(): Promise<void>
}

/** They are JavaScript without types. */
interface Part {
  leaseExperiments(run: object, peers: readonly string[], counts: object): Experiment[]
}

interface Modules {
  readonly part: Part
  startRedis(): Promise<Server>
  runAll(part: string, experiments: readonly Experiment[]): Promise<{ rows: Row[]; failures: string[] }>
}

const bench = (file: string): string => new URL(`../../bench/${file}`, import.meta.url).href

async function load(): Promise<Modules> {
  const part = (await import(bench('leases/part.mjs'))) as Part
  const { startRedis } = (await import(bench('redis/server.mjs'))) as Pick<Modules, 'startRedis'>
  const { runAll } = (await import(bench('lib/experiment.mjs'))) as Pick<Modules, 'runAll'>
  return { part, startRedis, runAll }
}

describe('npm run bench -- leases', () => {
  let server: Server
  let rows: readonly Row[]
  let failures: readonly string[]
  let titles: readonly string[]
  beforeAll(async () => {
    const { part, startRedis, runAll } = await load()
    server = await startRedis()
    const builds = [{ name: 'sluice', root: fileURLToPath(new URL('../..', import.meta.url)), version: 'test' }]
    const run = { builds, server, rounds: 1, ms: 60, warmUpMs: 60, patienceMs: 0 }
    // The peers are not installed for the tests.
    const experiments = part.leaseExperiments(run, [], { 1: [1, 8, 128], 2: [8], 4: [8] })
    titles = experiments.map(({ title }) => title)
    const measured = experiments.filter(({ title }) => !/Zipf.*processes|4 processes/.test(title))
    ;({ rows, failures } = await runAll('leases', measured))
  }, 150_000)
  afterAll(() => server.close())

  it('measures three workloads, two of them with several processes', () => {
    expect(failures).toEqual([])
    const several = (title: string): string[] => [title, `${title}, 2 processes`, `${title}, 4 processes`]
    expect(titles).toEqual([...several('one hot key'), ...several('10,000 Zipf keys'), 'cold keys'])
    for (const { values } of rows)
      for (const { samples } of Object.values(values)) expect(samples.every(Number.isFinite)).toBe(true)
  })

  it('judges each target', () => {
    const judged = rows.flatMap(({ group, title, budgets }) =>
      budgets.map(({ text }) => `${group.split(', ').slice(1, -1).join(', ')}, ${title}: ${text}`),
    )
    expect(judged.toSorted()).toMatchInlineSnapshot(`
      [
        "10,000 Zipf keys, 8 in flight: lease ≥ 1.4 × bare store",
        "10,000 Zipf keys, 99th percentile of a decision, 128 in flight: lease ≤ 7 × bare store",
        "10,000 Zipf keys, 99th percentile of a decision, 8 in flight: lease ≤ 4 × bare store",
        "cold keys, processor time of Node and Redis per decision, 1 in flight: lease ≤ 1.5 µs more in Node",
        "cold keys, processor time of Node and Redis per decision, 128 in flight: lease ≤ 1.5 µs more in Node",
        "cold keys, processor time of Node and Redis per decision, 8 in flight: lease ≤ 1.5 µs more in Node",
        "one hot key, 128 in flight: guard, lease ≥ 4 × bare store",
        "one hot key, 128 in flight: lease ≥ 5 × bare store",
        "one hot key, 8 in flight: guard, lease ≥ 15 × bare store",
        "one hot key, 8 in flight: lease ≥ 30 × bare store",
        "one hot key, 99th percentile of a decision, 1 in flight: guard, lease ≤ 5 µs",
        "one hot key, 99th percentile of a decision, 1 in flight: lease ≤ 5 µs",
      ]
    `)
    for (const { verdict } of rows.flatMap(({ budgets }) => budgets))
      expect(['met', 'within the spread', 'missed']).toContain(verdict)
  })

  it('counts the calls: a lease saves them for a hot key, and none for cold keys', () => {
    const calls = (workload: string, subject: string): number => {
      const group = `Leases, ${workload}, calls of the server per 1,000 decisions`
      const row = rows.find((each) => each.group === group && each.title === '8 in flight')
      return row!.values[subject]!.samples[0]!
    }
    for (const subject of ['lease', 'guard, lease'])
      expect(calls('one hot key', subject)).toBeLessThan(calls('one hot key', 'bare store') / 2)
    // Eight decisions in flight take at least one call.
    expect(calls('cold keys', 'lease')).toBeGreaterThanOrEqual(125)
  })
})
