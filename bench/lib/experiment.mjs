/**
 * Subjects that are measured in turn, and the rows that follow.
 * @typedef {{ title: string, subjects: string[], rounds: number,
 *   measure: (subject: string) => Promise<Record<string, number>>,
 *   rows: (samples: Samples) => import('./row.mjs').Row[] }} Experiment
 * @typedef {Record<string, Record<string, number[]>>} Samples by subject, then by figure: one number a round
 */

/**
 * A B C A B C …, so that whatever else the machine does happens to all of them.
 * @param {Experiment} experiment
 * @param {() => void} tick called after every measurement
 */
export async function run({ subjects, rounds, measure, rows }, tick) {
  const samples = Object.fromEntries(subjects.map((subject) => [subject, {}]))
  for (let round = 0; round < rounds; round++) {
    for (const subject of subjects) {
      const figures = await measure(subject)
      for (const [name, figure] of Object.entries(figures)) (samples[subject][name] ??= []).push(figure)
      tick()
    }
  }
  return rows(samples)
}

/** One figure of every subject. */
export function figure(samples, name) {
  const measured = Object.entries(samples).filter(([, figures]) => figures[name] !== undefined)
  return Object.fromEntries(measured.map(([subject, figures]) => [subject, figures[name]]))
}
