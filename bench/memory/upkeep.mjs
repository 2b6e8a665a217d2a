import { ask } from '../lib/child.mjs'
import { atMost } from '../lib/budget.mjs'
import { row } from '../lib/row.mjs'

const RETURN = new URL('./return.worker.mjs', import.meta.url)
const FLOOD = new URL('./flood.worker.mjs', import.meta.url)

/** What becomes of the memory of keys whose time has passed. */
export function giveBack({ rounds, keys, further }) {
  const title = `${keys.toLocaleString('en')} keys, then ${further.toLocaleString('en')} decisions on others`
  return {
    title: 'memory given back',
    subjects: ['sluice'],
    rounds: Math.ceil(rounds / 3),
    measure: () => ask(RETURN, { keys, further }, { flags: ['--expose-gc'] }),
    rows({ sluice: { held, left, share } }) {
      const budgets = [atMost('sluice keeps ≤ 5 % of it', 0.05, share)]
      return [row({ group: 'Memory given back', title, unit: 'MiB', values: { taken: held, left }, budgets })]
    },
  }
}

/** Ten times more distinct keys than a store may keep. */
export function flood({ rounds, keys: maxKeys }) {
  const keys = 10 * maxKeys
  const group = 'A flood of keys'
  const title = `${keys.toLocaleString('en')} distinct keys, maxKeys ${maxKeys.toLocaleString('en')}`
  return {
    title: 'a flood of keys',
    subjects: ['sluice'],
    rounds: Math.ceil(rounds / 2),
    measure: () => ask(FLOOD, { keys, maxKeys }, { flags: ['--expose-gc'] }),
    rows({ sluice: { first, most, growth, admitted } }) {
      const flat = atMost('resident memory grows ≤ 1.2 × after twice maxKeys', 1.2, growth)
      const safe = atMost('keys that were being denied and are admitted ≤ 0', 0, admitted)
      const values = { 'after twice maxKeys': first, 'the most after that': most }
      return [row({ group, title, unit: 'MiB resident', values, budgets: [flat, safe] })]
    },
  }
}
