/**
 * The tables of some rows: one for each group, with a line for each row.
 * @param {import('./row.mjs').Row[]} rows
 * @returns {{ title: string, head: string[], lines: string[][] }[]}
 */
export function tables(rows) {
  return [...grouped(rows)].map(([group, members]) => table(group, members))
}

function grouped(rows) {
  const groups = new Map()
  for (const row of rows) groups.set(row.group, [...(groups.get(row.group) ?? []), row])
  return groups
}

/** The unit is part of the title when all rows share it, and of each line otherwise. */
function table(group, rows) {
  const units = new Set(rows.map(({ unit }) => unit))
  const shared = units.size === 1 ? withUnit(group, rows[0].unit) : group
  const subjects = namesOf(rows, 'values')
  const compared = namesOf(rows, 'ratios')
  const withNotes = rows.some((row) => notesOf(row) !== '')
  const head = ['', ...subjects, ...compared.map((name) => `÷ ${name}`), ...(withNotes ? ['budget'] : [])]
  const lines = rows.map((row) => [
    units.size === 1 ? row.title : withUnit(row.title, row.unit),
    ...subjects.map((name) => cell(row.values[name])),
    ...compared.map((name) => cell(row.ratios[name])),
    ...(withNotes ? [notesOf(row)] : []),
  ])
  return { title: shared, head, lines }
}

function withUnit(text, unit) {
  return unit === '' ? text : `${text}, ${unit}`
}

function namesOf(rows, field) {
  return [...new Set(rows.flatMap((row) => Object.keys(row[field])))]
}

function notesOf({ budgets, slower }) {
  const notes = budgets.map(budgetText)
  return (slower ? ['slower than before', ...notes] : notes).join('; ')
}

/** A budget with its verdict and its figure. */
export function budgetText({ text, verdict, median, spread }) {
  return `${text}: ${verdict} (${figureText(median, spread)})`
}

function cell(value) {
  return value === undefined ? '' : figureText(value.median, value.spread)
}

/** A figure with its spread, both with as many places as give three digits of the figure. */
function figureText(value, spread) {
  const places = placesOf(value)
  return `${fixed(value, places)} ± ${fixed(spread, places)}`
}

function placesOf(value) {
  const size = Math.abs(value)
  return size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : 2
}

function fixed(value, places) {
  return value.toLocaleString('en', { minimumFractionDigits: places, maximumFractionDigits: places })
}
