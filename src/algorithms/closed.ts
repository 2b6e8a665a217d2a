import type { Algorithm } from './algorithm.ts'

const step: Algorithm<never>['step'] = (_params, _cells, _offset, now, cost, out) => {
  const allowed = cost === 0
  out.allowed = allowed
  out.at = now
  out.retry = allowed ? 0 : Infinity
  out.remaining = 0
  out.reset = 0
  out.delay = 0
  out.charged = cost
  out.persist = false
  out.next[0] = 0
}

/**
 * Replaces every other algorithm when a limit has a quota or a capacity of 0: nothing is admitted, except a cost of 0. It counts nothing,
 * and does not read states of other algorithms. So the usage of a key under an earlier quota stays in the store until it expires.
 */
export const closed: Algorithm<never> = {
  name: 'closed',
  options: [],
  parameters: [],
  cells: [{ name: 'used' }],
  initialState: [0],
  deriveParameters: () => ({}),
  maxValue: () => 0,
  capacity: () => 0,
  step,
  adjust: (_params, _cells, _offset, _now, _chargedAt, _units, out) => {
    out.persist = false
    out.next[0] = 0
  },
  convert: (_params, _from, _cells, _offset, _now, out) => {
    out.next[0] = 0
  },
}
