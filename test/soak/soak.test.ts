import { spawnSync } from 'node:child_process'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { builtPackage } from '../support/built.ts'
import { redisCommand } from '../support/redis.ts'

interface Entry {
  readonly key: string
  readonly source: string
  readonly admitted: number
  readonly returned: number
  readonly events: readonly number[][]
}

interface History {
  readonly losses: readonly number[]
  readonly changes: readonly { at: number; quota: number }[]
}

interface Parts {
  readonly Lag: new () => { lookedAt: number; during(from: number, until: number): number; stop(): void }
  readonly Ledger: new () => {
    add(entry: Entry & { limiter: string }): void
    check(specs: unknown, history: History): { problems: string[] }
  }
  readonly GENERATION: number
  readonly SPECS: unknown
  grown(heaps: readonly number[][]): string[]
  idle(used: ReadonlyMap<string, { keys: number; most: number }>): string[]
  late(decisions: readonly { ms: number; lag: number }[]): string[]
}

/** The programs of the soak are JavaScript, so that Node runs them as they are. */
const files = ['lag', 'ledger', 'limiters', 'verdict'].map((name) => new URL(`${name}.mjs`, import.meta.url).href)
const modules = (await Promise.all(files.map((file) => import(file)))) as object[]
const { Lag, Ledger, GENERATION, SPECS, grown, idle, late } = Object.assign({}, ...modules) as Parts

describe('the soak', () => {
  it('finds nothing wrong in 20 seconds of faults', { timeout: 120_000 }, async () => {
    const built = await builtPackage()
    redisCommand()
    const run = fileURLToPath(new URL('run.mjs', import.meta.url))
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [run, '--minutes', String(20 / 60), '--home', built],
      { encoding: 'utf8' },
    )
    expect(stdout + stderr).toContain('\nAll is well.\n')
    expect(status).toBe(0)
    for (const fault of ['freeze', 'kill', 'flush', 'restart']) expect(stdout).toContain(`${fault}: asked again`)
  })
})

/** What the ledger says about one key. */
function problems(limiter: string, entry: Partial<Entry>, history: Partial<History> = {}): string[] {
  const ledger = new Ledger()
  ledger.add({ limiter, key: '10-0', source: 'redis', admitted: 0, returned: 0, events: [], ...entry })
  return ledger.check(SPECS, { losses: [], changes: [], ...history }).problems
}

describe('the ledger of the soak', () => {
  const from = 10 * GENERATION

  it('allows a quota, and what was refunded', () => {
    expect(problems('gcra', { admitted: 30 })).toEqual([])
    expect(problems('gcra', { admitted: 31 })).toHaveLength(1)
    expect(problems('gcra', { admitted: 34, returned: 4 })).toEqual([])
    expect(problems('gcra', { admitted: 35, returned: 4 })).toHaveLength(1)
  })

  it('allows a process its share without Redis', () => {
    expect(problems('gcra', { admitted: 10, source: 'process 1' })).toEqual([])
    expect(problems('gcra', { admitted: 11, source: 'process 1' })).toHaveLength(1)
  })

  it('allows a quota again only after the server has lost its states in the time of the key', () => {
    expect(problems('gcra', { admitted: 60 }, { losses: [from + 500] })).toEqual([])
    expect(problems('gcra', { admitted: 61 }, { losses: [from + 500] })).toHaveLength(1)
    expect(problems('gcra', { admitted: 60 }, { losses: [from - 500] })).toHaveLength(1)
    expect(problems('gcra', { admitted: 11, source: 'process 1' }, { losses: [from + 500] })).toHaveLength(1)
  })

  it('allows what each increase of a quota adds in the time of the key', () => {
    const changes = [
      { at: 0, quota: 99 },
      { at: from - 9000, quota: 30 },
      { at: from + 500, quota: 24 },
      { at: from + 1000, quota: 60 },
      { at: from + 9000, quota: 99 },
    ]
    expect(problems('changing', { admitted: 66 }, { changes })).toEqual([])
    expect(problems('changing', { admitted: 67 }, { changes })).toHaveLength(1)
    expect(problems('changing', { admitted: 22, source: 'process 1' }, { changes })).toEqual([])
    expect(problems('changing', { admitted: 23, source: 'process 1' }, { changes })).toHaveLength(1)
  })

  it('allows a rate in every time that surely holds the decisions', () => {
    const burst = Array.from({ length: 39 }, () => [1000, 1010, 1])
    expect(problems('log-rate', { events: [...burst, [1990, 2011, 1]] })).toEqual([])
    expect(problems('log-rate', { events: [...burst, [1980, 1999, 1]] })).toHaveLength(1)
    expect(problems('log-rate', { events: [...burst, [1980, 1999, 1]] }, { losses: [1500] })).toEqual([])
    expect(problems('log-rate', { events: burst.slice(0, 14), source: 'process 1' })).toHaveLength(1)
  })
})

describe('the lag of the soak', () => {
  it('is the time for which the event loop did not run', async () => {
    const lag = new Lag()
    await pause(20)
    const start = performance.now()
    while (performance.now() < start + 100);
    const end = performance.now()
    while (lag.lookedAt < end) await pause(1)
    expect(lag.during(start, end)).toBeGreaterThan(90)
    expect(lag.during(start, end)).toBeLessThanOrEqual(end - start)
    expect(lag.during(start + 40, start + 60)).toBeCloseTo(20)
    expect(lag.during(end + 10_000, end + 20_000)).toBe(0)
    lag.stop()
  })
})

describe('the verdict of the soak', () => {
  it('counts the time of a decision without that for which the event loop was late', () => {
    expect(late([{ ms: 90, lag: 31 }])).toEqual([])
    expect(late([{ ms: 90, lag: 29 }])).toHaveLength(1)
  })

  it('finds a heap that grows', () => {
    const flat = [20e6, 22e6, 21e6, 22e6, 21e6, 22e6]
    const growing = [20e6, 22e6, 24e6, 28e6, 32e6, 36e6]
    expect(grown(flat.map((bytes) => [bytes]))).toEqual([])
    expect(grown(growing.map((bytes, i) => [flat[i]!, bytes]))).toHaveLength(1)
  })

  it('finds a load that is too small', () => {
    expect(idle(new Map([['gcra, Redis', { keys: 9, most: 1 }]]))).toEqual([])
    expect(idle(new Map([['gcra, Redis', { keys: 9, most: 0.4 }]]))).toHaveLength(1)
  })
})
