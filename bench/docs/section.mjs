import { give, grouped, tableOf } from '../lib/groups.mjs'
import { absentees, budgetsOf, missed } from '../lib/verdict.mjs'

const TITLES = { memory: 'In memory', server: 'In a server', redis: 'On Redis' }
const VERDICTS = { met: 'met', noise: 'missed, within the spread', missed: '**missed**' }

/** The last results as Markdown: what was measured, how it stands with the budgets, and the plots. */
export function section(parts, drawn) {
  const known = Object.keys(TITLES).filter((name) => parts[name] !== undefined)
  return known
    .map((name) =>
      partSection(
        TITLES[name],
        parts[name],
        drawn.filter(({ part }) => part === name),
      ),
    )
    .join('\n\n')
}

function partSection(title, { when, quick, machine, rows }, drawn) {
  const { cpu, cores, memory, system, node, ...tools } = machine
  const told = [`${cpu}, ${cores} cores, ${memory}`, system, `Node ${node}`, ...Object.values(tools)].join('; ')
  return [
    `### ${title}`,
    `${when}: ${told}${quick ? '. A quick run: more noise than a whole one' : ''}.`,
    ...[...grouped(rows)].map(([group, members]) => table(group, members)).filter((text) => text !== ''),
    budgetTable(rows),
    absence(rows),
    ...drawn.map(({ name, title }) => `![${title}](${name})`),
  ]
    .filter((text) => text !== '')
    .join('\n\n')
}

function table(group, members) {
  const made = tableOf(members)
  return made === undefined ? '' : `**${group}**\n\n${markdown(made.head, made.lines, ' ---: |')}`
}

/** Those that were missed stand open, the others are folded. */
function budgetTable(rows) {
  const all = budgetsOf(rows)
  const over = missed(rows)
  const rest = all.filter(({ budget }) => budget.verdict !== 'missed')
  const open = over.length === 0 ? '' : `**Budgets missed**\n\n${budgetLines(over)}`
  const folded = `<details>\n<summary>Budgets met, or missed within the spread: ${rest.length} of ${all.length}</summary>\n\n${budgetLines(rest)}\n\n</details>`
  return [open, rest.length === 0 ? '' : folded].filter((text) => text !== '').join('\n\n')
}

function budgetLines(budgets) {
  const lines = budgets.map(({ row, budget: { text, value, spread, verdict } }) => [
    `${row.group}: ${row.title}`,
    text,
    give(value, spread),
    VERDICTS[verdict],
  ])
  return markdown(['row', 'budget', 'measured', ''], lines, ' --- |')
}

function absence(rows) {
  const gone = absentees(rows)
  return gone.length === 0
    ? ''
    : `**Not measured**\n\n${gone.map(({ place, what }) => `- ${place}: ${what}`).join('\n')}`
}

function markdown(head, lines, rule) {
  const cells = (texts) => `| ${texts.map((text) => text.replaceAll('|', '\\|')).join(' | ')} |`
  return [cells(head), `| --- |${rule.repeat(head.length - 1)}`, ...lines.map(cells)].join('\n')
}
