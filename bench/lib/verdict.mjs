/** Every budget of some rows, with the row it belongs to. */
export function budgetsOf(rows) {
  return rows.flatMap((row) => row.budgets.map((budget) => ({ row, budget })))
}

/** Budgets that were missed by more than the measured spread. */
export function missed(rows) {
  return budgetsOf(rows).filter(({ budget }) => budget.verdict === 'missed')
}

/** What could not be measured, and why: a line for each row and reason. */
export function absentees(rows) {
  return rows.flatMap(({ group, title, absent }) => {
    const reasons = new Map()
    for (const [subject, why] of Object.entries(absent)) reasons.set(why, [...(reasons.get(why) ?? []), subject])
    return [...reasons].map(([why, subjects]) => ({
      place: `${group}: ${title}`,
      what: `${subjects.join(', ')}: ${why}`,
    }))
  })
}
