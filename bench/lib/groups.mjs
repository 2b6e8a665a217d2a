/** Rows by their group, in the order in which the groups first appear. */
export function grouped(rows) {
  const groups = new Map()
  for (const row of rows) groups.set(row.group, [...(groups.get(row.group) ?? []), row])
  return groups
}

/**
 * A group as a table of texts: a column for each row, a line for each subject.
 * @returns {{ head: string[], lines: string[][] } | undefined} nothing when nothing was measured
 */
export function tableOf(rows) {
  const measured = rows.filter((row) => Object.keys(row.values).length > 0)
  if (measured.length === 0) return undefined
  const subjects = [...new Set(measured.flatMap((row) => Object.keys(row.values)))]
  return {
    head: ['', ...measured.map(({ title, unit }) => (unit === '' ? title : `${title}, ${unit}`))],
    lines: subjects.map((subject) => [subject].concat(measured.map((row) => cell(row.values[subject])))),
  }
}

/** Three digits, and how far they can be trusted. */
function cell(value) {
  return value === undefined ? '' : give(value.median, value.spread)
}

/** A figure with its spread, both to as many places as make three digits of the figure. */
export function give(value, spread) {
  const places = placesOf(value)
  return `${fixed(value, places)} ± ${fixed(spread, places)}`
}

/** Three digits. */
export function number(value) {
  return fixed(value, placesOf(value))
}

function placesOf(value) {
  const size = Math.abs(value)
  return size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3
}

function fixed(value, places) {
  return value.toLocaleString('en', { minimumFractionDigits: places, maximumFractionDigits: places })
}
