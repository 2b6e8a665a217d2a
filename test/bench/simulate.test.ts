import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'

interface Summary {
  readonly trips: number
  readonly difference: number
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
