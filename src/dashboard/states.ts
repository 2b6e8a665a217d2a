import type { RulesEvent, RulesInEvent } from '../rules/rules.ts'
import type { StoreEvent } from '../stores/guard/index.ts'
import { isCharge, type LimitStatus, type Store } from '../stores/store.ts'
import { channel } from '../util/channel.ts'
import { madeOnce } from '../util/copies.ts'
import type { RulesState, StoreState } from './state.ts'

/** The largest number of stores that are shown, and of rules. */
export const MOST_STATES = 20
/** Longer texts are cut. */
export const LONGEST_TEXT = 300

const storeChannel = channel<StoreEvent>('sluice:store')
const rulesChannel = channel<RulesEvent>('sluice:rules')

/** Follows the states of the stores and rules of the process until `close`. Stores and rules that are not given are found by their events. */
export class States {
  readonly #stores = new Map<object, StoreState>()
  /** The limiters that count in each store. A store without a name is shown with the names of its limiters. */
  readonly #users = new WeakMap<object, Set<string>>()
  readonly #rules = new Map<RulesInEvent, string>()

  constructor(stores: Readonly<Record<string, Store>>, rules: readonly RulesInEvent[]) {
    for (const [name, store] of Object.entries(stores))
      this.#stores.set(store.place, { name, state: 'healthy', reason: '', since: 0 })
    for (const each of rules) this.#rules.set(each, '')
    storeChannel.subscribe(this.#storeChanged)
    rulesChannel.subscribe(this.#rulesChanged)
  }

  get stores(): StoreState[] {
    return Array.from(this.#stores, ([place, state]) => {
      const users = [...(this.#users.get(place) ?? [])].join(', ').slice(0, LONGEST_TEXT)
      const unnamed = users === '' ? 'a store' : `the store of ${users}`
      return { ...state, name: state.name.slice(0, LONGEST_TEXT) || unnamed }
    })
  }

  /** Remembers the store of a limiter. */
  note(status: LimitStatus): void {
    if (!isCharge(status)) return
    const place = status.policy.store.place
    const users = madeOnce(this.#users, place, () => new Set<string>())
    if (users.size < MOST_STATES) users.add(status.limiter)
  }

  get rules(): RulesState[] {
    return Array.from(this.#rules, ([{ current }, problem]) => {
      const { version, policies, loadedAt } = current
      return { version, policies: policies.length, loadedAt, problem }
    })
  }

  close(): void {
    storeChannel.unsubscribe(this.#storeChanged)
    rulesChannel.unsubscribe(this.#rulesChanged)
  }

  readonly #storeChanged = ({ store, state, reason }: StoreEvent): void => {
    const place = store.place
    const { name } = this.#stores.get(place) ?? { name: '' }
    if (!this.#stores.has(place) && this.#stores.size >= MOST_STATES) return
    this.#stores.set(place, { name, state, reason: reason.slice(0, LONGEST_TEXT), since: Date.now() })
  }

  readonly #rulesChanged = (event: RulesEvent): void => {
    if (!this.#rules.has(event.rules) && this.#rules.size >= MOST_STATES) return
    this.#rules.set(event.rules, problemIn(event).slice(0, LONGEST_TEXT))
  }
}

function problemIn(event: RulesEvent): string {
  if (event.event === 'change' || event.event === 'recovered') return ''
  if (event.event === 'invalid') {
    const { length } = event.problems
    return `A new document has ${length} ${length === 1 ? 'mistake' : 'mistakes'}. The current rules stay.`
  }
  return 'The source cannot be read. The current rules stay.'
}
