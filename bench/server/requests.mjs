import { atLeast } from '../lib/budget.mjs'
import { figure } from '../lib/experiment.mjs'
import { row } from '../lib/row.mjs'
import { ratios } from '../lib/samples.mjs'

/** Requests a second of one app with each limiter, and the share of the bare app's that each keeps. */
export function requestsPerSecond({ framework, title, peers, kept }, { rounds, seconds, warmUpSeconds }, apps, load) {
  const group = `In a server, ${title}`
  const warm = new Set()

  async function measure(limiter) {
    const port = await apps.port(framework, limiter)
    if (!warm.has(limiter)) await load(port, warmUpSeconds)
    warm.add(limiter)
    return { rate: await load(port, seconds) }
  }

  return {
    title: `requests a second, ${title}`,
    subjects: ['bare', 'floor', 'sluice', ...peers],
    rounds,
    measure,
    rows(samples) {
      const rate = figure(samples, 'rate')
      const shares = Object.entries(rate).map(([limiter, rates]) => [
        limiter,
        ratios(rates, rate.bare).map((share) => 100 * share),
      ])
      const values = Object.fromEntries(shares)
      const budgets = [atLeast(`sluice keeps ≥ ${100 * kept} % of the bare app's`, 100 * kept, values.sluice)]
      return [
        row({ group, title: 'requests', unit: '1/s', values: rate }),
        row({ group, title: 'of the bare app', unit: '%', values, budgets }),
      ]
    },
  }
}
