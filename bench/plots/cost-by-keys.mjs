import { colour } from './colours.mjs'
import { pointsOf } from './points.mjs'

/** Nanoseconds per decision against the number of keys. */
export function costByKeys(rows) {
  const measured = rows.filter(({ group }) => group === 'Cost against the number of keys')
  if (measured.length === 0) return undefined
  return {
    title: 'Nanoseconds per decision against the number of keys, taken at random',
    data: { values: measured.flatMap(pointsOf) },
    // The rows are titled '1,000,000 keys'.
    transform: [{ calculate: "toNumber(replace(datum.row, /[^0-9]/g, ''))", as: 'keys' }],
    width: 520,
    height: 320,
    mark: { type: 'line', point: true },
    encoding: {
      x: {
        field: 'keys',
        type: 'quantitative',
        scale: { type: 'log' },
        title: 'keys',
        axis: { format: '~s', tickCount: measured.length },
      },
      y: { field: 'value', type: 'quantitative', scale: { type: 'log' }, title: 'ns' },
      color: colour(),
    },
  }
}
