import { memoryStore } from 'sluice'
import { ask } from '../lib/child.mjs'
import { atMost } from '../lib/budget.mjs'
import { absentRow, row } from '../lib/row.mjs'

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
  const why = cannotBound(maxKeys)
  if (why !== undefined) return absentRow(group, title, 'sluice', why)
  return {
    title: 'a flood of keys',
    subjects: ['sluice'],
    rounds: Math.ceil(rounds / 3),
    measure: () => ask(FLOOD, { keys, maxKeys }, { flags: ['--expose-gc'] }),
    rows({ sluice: { first, most, growth, admitted } }) {
      const flat = atMost('resident memory grows ≤ 1.1 × once maxKeys are reached', 1.1, growth)
      const safe = atMost('keys that were being denied and are admitted ≤ 0', 0, admitted)
      const values = { 'once maxKeys are reached': first, 'the most after that': most }
      return [row({ group, title, unit: 'MiB resident', values, budgets: [flat, safe] })]
    },
  }
}

function cannotBound(maxKeys) {
  try {
    memoryStore({ maxKeys }).close()
    return undefined
  } catch (error) {
    return `memoryStore has no option maxKeys yet (${error.message})`
  }
}
