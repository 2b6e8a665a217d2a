import { styleText } from 'node:util'
import { missedBudgets, slowerRows } from './row.mjs'
import { budgetText, tables } from './table.mjs'

/** Prints the rows of one part. */
export function printPart(name, { rows, failures, builds, machine, quick, seconds }) {
  const versions = Object.entries(builds).map(([build, version]) => `${build}: ${version}`)
  const run = [...versions, ...Object.values(machine), `${seconds} s`, ...(quick ? ['a quick run'] : [])]
  console.log(`\n${bold(name)} — ${run.join(', ')}`)
  for (const table of tables(rows)) printTable(table)
  for (const failure of failures) console.log(`\nNot measured: ${failure}`)
}

export function printTable({ title, head, lines }) {
  console.log(`\n${bold(title)}\n${aligned([head, ...lines])}`)
}

/** Prints how many budgets are met, the budgets that are missed, and the rows that are slower. */
export function printSummary(measured) {
  const rows = Object.values(measured).flatMap((part) => part.rows)
  const budgets = rows.flatMap((row) => row.budgets)
  const count = (verdict) => budgets.filter((budget) => budget.verdict === verdict).length
  const verdicts = `${count('met')} met, ${count('within the spread')} missed within the spread, ${count('missed')} missed`
  console.log(`\n${budgets.length} budgets: ${verdicts}`)
  for (const { row, budget } of missedBudgets(rows))
    console.log(`  missed: ${row.group}, ${row.title}: ${budgetText(budget)}`)
  const compared = rows.filter(({ ratios }) => ratios.before !== undefined)
  if (compared.length === 0) return
  const slower = slowerRows(rows)
  console.log(`${compared.length} rows compared with the build before: ${slower.length} slower`)
  for (const { group, title, ratios } of slower)
    console.log(`  slower: ${group}, ${title}: ${ratios.before.median.toFixed(2)} × before`)
}

function aligned(lines) {
  const widths = lines[0].map((_, column) => Math.max(...lines.map((line) => line[column].length)))
  const last = widths.length - 1
  const place = (text, column) =>
    column === 0 || (column === last && lines[0][last] === 'budget')
      ? text.padEnd(widths[column])
      : text.padStart(widths[column])
  return lines.map((line) => `  ${line.map(place).join('  ')}`.trimEnd()).join('\n')
}

function bold(text) {
  return process.stdout.isTTY ? styleText('bold', text) : text
}
