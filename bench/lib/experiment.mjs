/**
 * Measurements that are taken in turn, and the rows that follow from them.
 * @typedef {{ title: string, rounds: number, steps: Step[], begin?: () => Promise<void>, end?: () => Promise<void>,
 *   rows: (samples: Samples) => import('./row.mjs').Row[] }} Experiment
 * @typedef {{ subject: string, rounds?: number, measure: () => Promise<Record<string, number>> }} Step one measurement; it
 *   takes part in the first `rounds` rounds. Default: in all.
 * @typedef {Record<string, Record<string, number[]>>} Samples by subject and figure, one number a round
 */

/** Runs experiments one after another. One that fails leaves the others running. */
export async function runAll(part, experiments) {
  const rows = []
  const failures = []
  for (const experiment of experiments) {
    console.error(`measuring ${part}: ${experiment.title}`)
    const began = performance.now()
    try {
      rows.push(...experiment.rows(await sample(experiment)))
      console.error(`  ${Math.round((performance.now() - began) / 1000)} s`)
    } catch (error) {
      console.error(error)
      failures.push(`${experiment.title}: ${error.message.split('\n')[0]}`)
    }
  }
  return { rows, failures }
}

/** Takes the steps in turn, round by round, so that a change of the machine's speed meets all subjects alike. */
async function sample({ rounds, steps, begin, end }) {
  const samples = {}
  for (let round = 0; round < rounds; round++) {
    try {
      await begin?.()
      for (const step of steps) if (round < (step.rounds ?? rounds)) await take(step, samples)
    } finally {
      await end?.()
    }
  }
  return samples
}

async function take({ subject, measure }, samples) {
  const figures = (samples[subject] ??= {})
  for (const [name, figure] of Object.entries(await measure())) (figures[name] ??= []).push(figure)
}

/** One figure of every subject that has it. */
export function figure(samples, name) {
  const measured = Object.entries(samples).filter(([, figures]) => figures[name] !== undefined)
  return Object.fromEntries(measured.map(([subject, figures]) => [subject, figures[name]]))
}
