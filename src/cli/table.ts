/**
 * Lays rows out in columns. The first row has the headings.
 * @param numbers the columns that are aligned to the right
 */
export function columns(rows: readonly (readonly string[])[], numbers: ReadonlySet<number>): string[] {
  const widths = rows[0]!.map((_, i) => rows.reduce((most, row) => Math.max(most, row[i]!.length), 0))
  return rows.map((row) =>
    row
      .map((cell, i) => (numbers.has(i) ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!)))
      .join('  ')
      .trimEnd(),
  )
}

/** Writes a whole number with separators. */
export function grouped(number: number): string {
  return number.toLocaleString('en')
}

/** Writes a share in per cent, with enough digits to tell it from 0. */
export function percent(part: number, whole: number): string {
  if (part === 0 || whole === 0) return '0 %'
  const share = (100 * part) / whole
  const digits = share >= 10 ? 1 : Math.min(6, Math.max(2, Math.ceil(-Math.log10(share)) + 1))
  return `${Number(share.toFixed(digits))} %`
}
