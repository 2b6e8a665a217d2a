/** The medians of a row, as a plot takes them. */
export function pointsOf(row) {
  return Object.entries(row.values).map(([subject, { median }]) => ({ row: row.title, subject, value: median }))
}
