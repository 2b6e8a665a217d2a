/** Every budget of some rows, with the row it belongs to. */
export function budgetsOf(rows) {
  return rows.flatMap((row) => row.budgets.map((budget) => ({ row, budget })))
}

/** Budgets that were missed by more than the measured spread. */
export function missed(rows) {
  return budgetsOf(rows).filter(({ budget }) => budget.verdict === 'missed')
}

/** What could not be measured, and why. */
export function absentees(rows) {
  return rows.flatMap(({ group, title, absent }) =>
    Object.entries(absent).map(([subject, why]) => ({ place: `${group}, ${title}`, subject, why })),
  )
}
