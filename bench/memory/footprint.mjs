import { figure } from '../lib/experiment.mjs'
import { ask } from '../lib/processes.mjs'
import { budget, oursIn, row } from '../lib/row.mjs'
import { ratios } from '../lib/statistics.mjs'

const GARBAGE = new URL('./garbage.worker.mjs', import.meta.url)
const UPKEEP = new URL('./upkeep.worker.mjs', import.meta.url)
const NO_COLLECTION = ['--expose-gc', '--min-semi-space-size=512', '--max-semi-space-size=512']
const CASES = [
  { title: 'one limit, admitted', count: 1, denied: false },
  { title: 'one limit, denied', count: 1, denied: true },
  { title: 'three limits, admitted', count: 3, denied: false },
]

/** Bytes that a decision allocates, and how many of them are garbage at once. */
export function garbage({ builds, core, rounds }) {
  const steps = CASES.flatMap(({ title, count, denied }) =>
    builds.map(({ name, root }) => ({
      subject: name,
      async measure() {
        const { allocated, garbage } = await ask(GARBAGE, { root, count, denied }, { core, flags: NO_COLLECTION })
        return { [`${title}: allocated`]: allocated, [`${title}: garbage`]: garbage }
      },
    })),
  )
  return { title: 'garbage', rounds: Math.ceil(rounds / 2), steps, rows: garbageRows }
}

function garbageRows(samples) {
  const group = 'Bytes per decision, polluted'
  return CASES.flatMap(({ title }) => {
    const values = figure(samples, `${title}: garbage`)
    const few = budget('≤ 250 bytes', values[oursIn(values)], { atMost: 250 })
    return [
      row({ group, title: `${title}: allocated`, unit: '', values: figure(samples, `${title}: allocated`) }),
      row({ group, title: `${title}: beyond the decision`, unit: '', values, budgets: [few] }),
    ]
  })
}

function upkeep(builds, core, job) {
  return builds.map(({ name, root }) => ({
    subject: name,
    measure: () => ask(UPKEEP, { root, ...job }, { core, flags: ['--expose-gc'] }),
  }))
}

/** Memory that is in use by expired keys. */
export function expiredKeys({ builds, core, keys, further }) {
  const group = `Memory of ${keys.toLocaleString('en')} expired keys`
  function rows(samples) {
    const [taken, left] = [figure(samples, 'taken'), figure(samples, 'left')]
    const ours = oursIn(taken)
    const share = ratios(left[ours], taken[ours])
    const budgets = [budget('≤ 5 %', share, { atMost: 0.05 })]
    return [
      row({ group, title: 'before they expire', unit: 'MiB', values: taken }),
      plainRow({ group, title: `${further.toLocaleString('en')} decisions later`, unit: 'MiB', values: left, budgets }),
    ]
  }
  return {
    title: 'expired keys',
    rounds: 1,
    steps: upkeep(builds, core, { what: 'expiry', keys, further }),
    rows,
  }
}

/** A row without a ratio: its figures are near zero, or depend on when the collector ran. */
function plainRow(given) {
  return { ...row(given), ratios: {}, slower: false }
}

/** Ten times more keys than a store may keep. */
export function floodOfKeys({ builds, core, keys }) {
  const group = `A flood of ${(10 * keys).toLocaleString('en')} keys, maxKeys ${keys.toLocaleString('en')}`
  function rows(samples) {
    const [first, most, admitted] = ['first', 'most', 'admitted'].map((name) => figure(samples, name))
    const ours = oursIn(most)
    const flat = budget('≤ 1.2 × twice maxKeys', ratios(most[ours], first[ours]), { atMost: 1.2 })
    const none = budget('none', admitted[ours], { atMost: 0 })
    const resident = { group, unit: 'MiB resident' }
    return [
      plainRow({ ...resident, title: 'after twice maxKeys', values: first }),
      plainRow({ ...resident, title: 'the most after that', values: most, budgets: [flat] }),
      plainRow({ group, title: 'denied keys that are admitted', unit: '', values: admitted, budgets: [none] }),
    ]
  }
  return { title: 'a flood of keys', rounds: 1, steps: upkeep(builds, core, { what: 'flood', keys }), rows }
}
