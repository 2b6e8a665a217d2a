import { styleText } from 'node:util'
import { give, grouped, tableOf } from './groups.mjs'
import { absentees, budgetsOf, missed } from './verdict.mjs'

const MARKS = { met: styled('green', 'met   '), noise: styled('yellow', 'noise '), missed: styled('red', 'MISSED') }

/** Prints what was measured, for people. */
export function printPart(name, { rows, machine, quick }) {
  console.log(`\n${bold(name)} — ${Object.values(machine).join(', ')}${quick ? ', a quick run' : ''}`)
  for (const [group, members] of grouped(rows)) {
    const table = tableOf(members)
    if (table !== undefined) console.log(`\n${bold(group)}\n${aligned([table.head, ...table.lines])}`)
    for (const { row, budget } of budgetsOf(members)) console.log(`  ${MARKS[budget.verdict]} ${told(row, budget)}`)
  }
  const gone = absentees(rows)
  if (gone.length > 0)
    console.log(`\n${bold('Not measured')}\n${gone.map(({ place, what }) => `  ${place}: ${what}`).join('\n')}`)
}

/** Prints how it stands with all budgets. */
export function printVerdict(rows) {
  const all = budgetsOf(rows)
  const over = missed(rows)
  const near = all.filter(({ budget }) => budget.verdict === 'noise').length
  console.log(
    `\n${all.length} budgets: ${all.length - over.length - near} met, ${near} missed within the spread, ${over.length} missed`,
  )
  for (const { row, budget } of over) console.log(`  ${MARKS.missed} ${row.group}, ${told(row, budget)}`)
}

function told({ title }, { text, value, spread }) {
  return `${title}: ${text}: ${give(value, spread)}`
}

function aligned(lines) {
  const widths = lines[0].map((_, column) => Math.max(...lines.map((line) => line[column].length)))
  return lines
    .map(
      (line) =>
        `  ${line.map((text, column) => (column === 0 ? text.padEnd(widths[0]) : text.padStart(widths[column]))).join('   ')}`,
    )
    .join('\n')
}

function bold(text) {
  return styled('bold', text)
}

function styled(style, text) {
  return process.stdout.isTTY ? styleText(style, text) : text
}
