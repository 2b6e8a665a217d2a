import { colour, ORDER } from './colours.mjs'
import { pointsOf } from './points.mjs'

const TITLE = 'memory per key, '

/** Bytes per key beyond the key's own text. */
export function bytesPerKey(rows) {
  const measured = rows.find(({ title }) => title.startsWith(TITLE))
  if (measured === undefined) return undefined
  return {
    title: `Bytes per key beyond the key: ${measured.title.slice(TITLE.length)}`,
    data: { values: pointsOf(measured) },
    width: 520,
    height: { step: 24 },
    mark: 'bar',
    encoding: {
      y: { field: 'subject', type: 'nominal', title: null, sort: ORDER },
      x: { field: 'value', type: 'quantitative', title: 'bytes' },
      color: colour(null),
    },
  }
}
