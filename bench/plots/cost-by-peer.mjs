import { colour, ORDER } from './colours.mjs'
import { pointsOf } from './points.mjs'

/** Nanoseconds per decision, by what decides. */
export function costByPeer(rows) {
  const measured = rows.filter(({ group, unit }) => group === 'In memory, one process' && unit === 'ns')
  if (measured.length === 0) return undefined
  return {
    title: 'Nanoseconds per decision, in memory',
    data: { values: measured.flatMap(pointsOf) },
    columns: 2,
    facet: { field: 'row', type: 'nominal', title: null, sort: measured.map(({ title }) => title) },
    resolve: { scale: { x: 'independent' } },
    spec: {
      width: 320,
      height: { step: 20 },
      mark: 'bar',
      encoding: {
        y: { field: 'subject', type: 'nominal', title: null, sort: ORDER },
        x: { field: 'value', type: 'quantitative', title: 'ns' },
        color: colour(null),
      },
    },
  }
}
