import { createLimiter } from '../../limiter/limiter.ts'
import type { Decision } from '../../limiter/decision.ts'
import type { RulesInput } from '../../limiter/rule-source.ts'
import type { Limit } from '../../limits/limit.ts'
import type { RulesDocument } from '../../rules/document.ts'
import { createRules } from '../../rules/rules.ts'
import { memoryStore } from '../../stores/memory/index.ts'
import type { SyncStore } from '../../stores/store.ts'
import { copyText } from '../../util/copy-text.ts'
import type { LogEntry } from '../logs/entry.ts'
import type { LogSettings } from '../logs/options.ts'
import type { LoggedRequest } from '../logs/request.ts'
import type { LimitExpression } from './expression.ts'

/** Decides about an entry of a log at the time of the entry. */
export type Decide = (entry: LogEntry) => Decision

/** A store whose clock shows the time of the entry that is decided. */
export interface LogStore {
  readonly store: SyncStore
  /** True if a limit has had more keys than the store keeps apart. */
  readonly isFull: boolean
  set(time: number): void
}

export function logStore(maxKeys: number): LogStore {
  let [now, isFull] = [0, false]
  const clock = { now: () => now }
  const store = memoryStore({ maxKeys, clock, onFull: () => void (isFull = true) })
  return {
    store,
    get isFull() {
      return isFull
    },
    set(time) {
      now = time
    },
  }
}

/** Stands for all requests without a key. */
const NO_KEY = '(no key)'

/** Makes one limiter of several limits: one transaction. */
export function limitsDecider(
  expressions: readonly LimitExpression[],
  { store, set }: LogStore,
  hasCosts: boolean,
): Decide {
  const limits = expressions.map(({ limit, matches }) =>
    matches === undefined
      ? limit
      : ({ request }: LogEntry): Limit | undefined => (matches(request) ? limit : undefined),
  )
  const keyer = ({ key }: LogEntry): string => key || NO_KEY
  const cost = ({ cost: units }: LogEntry): number => units
  const limiter = createLimiter<LogEntry>({ keyer, limits, store, ...(hasCosts && { cost }) })
  return (entry) => {
    set(entry.request.time)
    return limiter.consume(entry)
  }
}

/** Makes a limiter with rules. They match what the log has: the method, the path, the address, headers, and fields as attributes. */
export function rulesDecider(document: RulesDocument, { store, set }: LogStore, { ipv6Subnet }: LogSettings): Decide {
  const rules = createRules<RulesInput>(document, { ipv6Subnet })
  const limiter = createLimiter({ rules, store })
  return ({ request, cost }) => {
    set(request.time)
    // The store answers at once, and the attributes are not a promise.
    return limiter.consume(inputOf(request), { cost }) as Decision
  }
}

/** Keys in the store share no memory with the log. */
function inputOf({ method, path, ip, headers, fields }: LoggedRequest): RulesInput {
  return {
    ...(method !== '' && { method: copyText(method) }),
    ...(path !== '' && { path: copyText(path) }),
    ...(ip !== '' && { ip }),
    ...(headers && { headers }),
    ...(fields && { attributes: fields }),
  }
}
