import { ask } from '../lib/child.mjs'
import { atMost } from '../lib/budget.mjs'
import { row } from '../lib/row.mjs'
import { SUBJECTS } from './peer-experiments.mjs'

const TIME = new URL('./time.worker.mjs', import.meta.url)
/** With more keys than this only the floor and ours are measured. */
const LARGEST_OF_PEERS = 1e6

/** Cost per decision, keys at random, against the number of keys. */
export function growth({ sizes, growthRounds, ms }) {
  const pairs = sizes.flatMap((keys) =>
    SUBJECTS.filter((name) => takesPart(name, keys)).map((name) => ({ name, keys })),
  )
  const named = new Map(pairs.map((pair) => [`${pair.name} ${pair.keys}`, pair]))
  return {
    title: 'cost against the number of keys',
    subjects: [...named.keys()],
    rounds: growthRounds,
    measure: (pair) => {
      const { name, keys } = named.get(pair)
      return ask(TIME, { subject: name, scenario: 'random', keys, ms }, { flags: ['--max-old-space-size=8192'] })
    },
    rows: (samples) => sizes.map((keys, i) => sizeRow(samples, keys, i === 0 ? undefined : sizes[0])),
  }
}

function takesPart(name, keys) {
  return keys <= LARGEST_OF_PEERS || name === 'floor' || name === 'sluice'
}

function sizeRow(samples, keys, fewest) {
  const of = (name, count) => samples[`${name} ${count}`]?.ns
  const values = Object.fromEntries(SUBJECTS.map((name) => [name, of(name, keys)]))
  const budgets = fewest === undefined ? [] : [grown(of, keys, fewest)]
  return row({
    group: 'Cost against the number of keys',
    title: `${keys.toLocaleString('en')} keys`,
    unit: 'ns',
    values,
    budgets,
  })
}

/** How much slower it gets with more keys, against how much slower the floor gets. */
function grown(of, keys, fewest) {
  const growth = (name, round) => of(name, keys)[round] / of(name, fewest)[round]
  const ratios = of('sluice', keys).map((_, round) => growth('sluice', round) / growth('floor', round))
  return atMost(`sluice grows ≤ 1 × the floor's growth since ${fewest.toLocaleString('en')} keys`, 1, ratios)
}
