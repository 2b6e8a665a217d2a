import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'

interface Summary {
  readonly trips: number
  readonly waits: number
  readonly requests: number
  readonly difference: number
  readonly overshoot: number
  readonly fairness: number
  readonly overdrawn: number
}

interface Row {
  readonly processes: number
  readonly load: number
  readonly exact: Summary
  readonly lease: Summary
  readonly reports: Summary
  readonly shares: Summary
}

interface Results {
  readonly parts: { readonly oneKey: readonly Row[]; readonly begin: readonly Row[] }
}

const MINUTE = 60_000

/** Simulates a small part of the grid in a separate process. */
async function simulate(...args: string[]): Promise<Results> {
  const command = ['bench/simulate/run.mjs', '--json', '--quick', ...args]
  const { stdout } = await promisify(execFile)(process.execPath, command, { maxBuffer: 1e7 })
  return JSON.parse(stdout) as Results
}

/** The cells of each line of a table in Markdown, without padding. */
function rowsOf(markdown: string): string[] {
  const lines = markdown.split('\n').filter((line) => line.startsWith('|'))
  return lines.map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim())
      .join('|'),
  )
}

describe('npm run simulate', () => {
  it('has the same figures for the same seed, and others for another', { timeout: 2 * MINUTE }, async () => {
    const first = await simulate('--part', 'begin')
    expect(await simulate('--part', 'begin')).toEqual(first)
    expect(await simulate('--part', 'begin', '--seed', '2')).not.toEqual(first)
  })

  it('simulates every method under the same requests', { timeout: 2 * MINUTE }, async () => {
    const { oneKey } = (await simulate('--part', 'oneKey')).parts
    expect(oneKey.length).toBe(4 * 3 * 2)
    for (const row of oneKey) {
      const { exact, lease, reports, shares } = row
      expect(exact, JSON.stringify(row)).toMatchObject({ trips: 1, waits: 1, difference: 0, overshoot: 0 })
      expect(shares).toMatchObject({ trips: 0, waits: 0 })
      // No process has used a unit before it was charged.
      expect([exact.overdrawn, lease.overdrawn]).toEqual([0, 0])
      // A lease of 250 ms shifts at most a quarter of what returns in a second.
      expect(lease.overshoot).toBeLessThanOrEqual(0.25)
      expect(lease.difference).toBeLessThanOrEqual(0.25)
      for (const { requests, fairness } of [exact, lease, reports, shares]) {
        expect(requests).toBe(exact.requests)
        expect(fairness).toBeGreaterThan(0)
        expect(fairness).toBeLessThanOrEqual(1.000001)
      }
    }
    const steady = (processes: number): Row => oneKey.find((row) => row.processes === processes && row.load === 0.9)!
    expect(steady(1).lease.trips).toBeLessThan(0.05)
    expect(steady(20).lease.trips).toBeLessThan(0.5)
    expect(steady(1000).lease.trips).toBeGreaterThan(0.9)
    expect(oneKey.some(({ reports }) => reports.overshoot > 0.25)).toBe(true)
    expect(oneKey.some(({ shares }) => shares.difference < -0.5)).toBe(true)
  })

  it.each([
    [['--seed', '0'], '--seed: expected a positive integer'],
    [['--part', 'none'], '--part: there is no part "none"'],
  ])('refuses %j', async (args, message) => {
    await expect(simulate(...args)).rejects.toThrow(message)
  })
})

describe('docs/internals/leases.md', () => {
  it('has a line for every row of the last whole run', async () => {
    const script = `import { readFileSync } from 'node:fs'
      import { KEPT, tablesOf } from './bench/simulate/page.mjs'
      console.log(JSON.stringify(tablesOf(JSON.parse(readFileSync(KEPT, 'utf8')))))`
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script])
    const tables = JSON.parse(stdout) as { title: string; head: string[]; lines: string[][] }[]
    const page = readFileSync('docs/internals/leases.md', 'utf8')
    const rows = rowsOf(page)
    const kept = JSON.parse(readFileSync('bench/results/simulation.json', 'utf8')) as {
      parts: Record<string, unknown[]>
    }
    expect(tables.flatMap(({ lines }) => lines).length).toBe(Object.values(kept.parts).flat().length)
    expect(tables.length).toBe(9)
    for (const { title, head, lines } of tables) {
      expect(page).toContain(`\n### ${title}\n`)
      expect(rows).toContain(head.join('|'))
      expect(lines.length).toBeGreaterThan(5)
      for (const line of lines) expect(rows).toContain(line.join('|'))
    }
  })
})
