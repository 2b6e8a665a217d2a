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
})

interface Table {
  readonly title: string
  readonly head: readonly string[]
  readonly lines: readonly (readonly string[])[]
}

interface Kept {
  readonly parts: Record<string, readonly unknown[]> & { readonly options: readonly OptionRow[] }
}

interface OptionRow {
  readonly processes: number
  readonly for: string
  readonly share: number
  readonly lease: Summary
  readonly 'bursty lease': Summary
}

/** Returns the tables that a function of the module of the page makes of the last whole run. It is JavaScript without types. */
async function keptTables(name: 'tablesOf' | 'pageTablesOf'): Promise<readonly Table[]> {
  const script = `import { readFileSync } from 'node:fs'
    import { KEPT, ${name} } from './bench/simulate/page.mjs'
    console.log(JSON.stringify(${name}(JSON.parse(readFileSync(KEPT, 'utf8')))))`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script])
  return JSON.parse(stdout) as readonly Table[]
}

describe('the last whole run', () => {
  const kept = JSON.parse(readFileSync('bench/results/simulation.json', 'utf8')) as Kept
  const page = readFileSync('docs/internals/leases.md', 'utf8')
  const rows = rowsOf(page)

  it('is in the tables of docs/internals/leases.md', async () => {
    const tables = await keptTables('pageTablesOf')
    expect(tables.length).toBe(4)
    for (const { title, head, lines } of tables) {
      expect(page).toContain(`\n### ${title}\n`)
      expect(rows).toContain(head.join('|'))
      expect(lines.length).toBeGreaterThan(5)
      for (const line of lines) expect(rows).toContain(line.join('|'))
    }
  })

  it('has the figures of the table of `for` and `share` in docs/internals/leases.md', () => {
    const digits = (trips: number): string => (trips < 0.1 ? trips.toFixed(3) : trips.toFixed(2))
    // 900 requests a second reach all processes together.
    const figures = kept.parts.options.map((row) => {
      const { processes, share, lease, 'bursty lease': bursty } = row
      return [900 / processes, `\`${row.for}\`, ${share}`, digits(lease.trips), digits(bursty.trips)].join('|')
    })
    const chosen = rows.filter((row) => /^[\d.]+\|`\d+m?s`, 0\.\d+\|/.test(row))
    expect(chosen.length).toBeGreaterThan(5)
    for (const row of chosen) {
      const [line, held] = [row.slice(0, row.lastIndexOf('|')), row.slice(row.lastIndexOf('|') + 1)]
      expect(figures).toContain(line)
      const { 'bursty lease': bursty } = kept.parts.options[figures.indexOf(line)]!
      expect(Number.parseFloat(held)).toBeCloseTo(-100 * bursty.difference, 1)
    }
  })
})
