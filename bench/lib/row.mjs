import { summary } from './samples.mjs'

/**
 * One thing measured, of several subjects. Rows of a group are the columns of one table, its subjects the lines.
 * @typedef {{ group: string, title: string, unit: string, values: Record<string, { median: number, spread: number, samples: number[] }>,
 *   budgets: import('./budget.mjs').Budget[], absent: Record<string, string> }} Row
 */

/**
 * @param {{ group: string, title: string, unit: string, values: Record<string, number[]>,
 *   budgets?: import('./budget.mjs').Budget[], absent?: Record<string, string> }} row
 * @returns {Row}
 */
export function row({ group, title, unit, values, budgets = [], absent = {} }) {
  const measured = Object.entries(values).filter(([, samples]) => samples !== undefined)
  const told = Object.fromEntries(measured.map(([name, samples]) => [name, { ...summary(samples), samples }]))
  return { group, title, unit, values: told, budgets, absent }
}

/** A row that cannot be measured, and why. */
export function absentRow(group, title, subject, why) {
  return row({ group, title, unit: '', values: {}, absent: { [subject]: why } })
}
