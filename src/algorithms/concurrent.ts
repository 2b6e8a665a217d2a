import type { Algorithm, ParameterInput } from './algorithm.ts'
import { rescale } from './arithmetic.ts'
import { writeEdit } from './entries.ts'
import { milliseconds, refuse } from '../util/validate.ts'
import { advance, log, MOST_ENTRIES, type Name as LogName } from './sliding-window-log.ts'

/**
 * `concurrent`: a log of the running requests. A charge takes slots. Slots are free again when they are released, or after `expiresAfter`.
 *
 * State and entries are the same as in `slidingWindowLog` with `window = expiresAfter`: `(sum, newest)`, and `(tick, slots)` for each tick in
 * which slots were taken. A release removes the entry of its own charge. A renewal moves the entry to now, or adds it again. Both find the
 * entry by its time, so nothing else has to be stored. A release that comes too late changes nothing.
 */
type Name = LogName | 'hint'

const step: Algorithm<Name>['step'] = (params, cells, offset, now, cost, out, entries) => {
  log.step(params, cells, offset, now, cost, out, entries)
  // The time of the next release is unknown.
  if (out.retry > 0 && out.retry < Infinity) out.retry = params.hint
}

const convert: Algorithm<Name>['convert'] = (params, from, cells, offset, now, out, entries) => {
  const newest = cells[offset + 1]!
  const { over } = advance(from, cells, offset, rescale(now, params, from), entries)
  const kept = cells[offset]! - over
  // Slots stay taken, also above a smaller quota. They keep their times, so that each release finds its own entry.
  const isSame = from.perMs === params.perMs
  const time = Math.max(now, -rescale(-newest, from, params))
  out.next[0] = kept
  out.next[1] = kept === 0 ? 0 : isSame ? newest : time
  writeEdit(out.edit, isSame ? over : over + kept, 0, 0, time, isSame ? 0 : kept)
}

type Renew = NonNullable<Algorithm<Name>['renew']>
const renew: Renew = (params, cells, offset, now, chargedAt, units, takes, out, entries) => {
  const { index, over } = advance(params, cells, offset, now, entries)
  const held = chargedAt > index - params.life ? entries.costAt(chargedAt) : 0
  const moved = Math.min(units, held)
  const others = cells[offset]! - over - moved
  const kept = takes && others + units <= params.quota ? units : moved
  out.persist = kept > 0
  out.at = index
  out.charged = kept
  out.next[0] = others + kept
  out.next[1] = index
  writeEdit(out.edit, over, chargedAt, moved, index, kept)
}

function deriveParameters({ quota, window, perMs, own }: ParameterInput): Readonly<Record<Name, number>> {
  if (quota > MOST_ENTRIES) refuse('quota', `at most ${MOST_ENTRIES} for concurrent`, quota)
  const hint = Math.round(milliseconds('retryAfter', own['retryAfter'] ?? '1s') * perMs)
  return { quota, grain: 1, life: window, hint }
}

/**
 * Allows `quota` requests at the same time. A request takes a slot, which is free again when it is released. Adapters release it when the
 * response has ended. A slot that nobody releases or renews is free after `expiresAfter`, such as that of a process that was killed. The quota is
 * at most 100,000. Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example concurrent({ quota: 10, expiresAfter: '1m' })
 */
export const concurrent: Algorithm<Name> = {
  ...log,
  name: 'concurrent',
  options: ['retryAfter'],
  optionFields: {
    retryAfter: {
      kind: 'duration',
      fallback: "'1s'",
      meaning: 'When a client may ask again: nobody knows when a slot is released.',
    },
  },
  windowOption: {
    name: 'expiresAfter',
    fallback: '1m',
    meaning: 'How long a slot is held after it was taken or renewed. Adapters renew it every third of this time.',
  },
  parameters: ['quota', 'grain', 'life', 'hint'],
  deriveParameters,
  step,
  convert,
  renew,
}
