import { copyText } from '../../util/bounded-key.ts'
import { createLimiter, type Limiter } from '../../limiter/limiter.ts'
import { unlimited } from '../../limiter/options.ts'
import { type Decision, holdsSlots } from '../../limiter/decision.ts'
import type { RulesInput } from '../../limiter/rule-source.ts'
import { knownAlgorithms } from '../../engine/all-algorithms.ts'
import { countsSlots, type Limit, limit, type LimitInput, windowText } from '../../engine/limit.ts'
import type { CompiledRules } from '../../rules/dimensions.ts'
import { Rules } from '../../rules/rules.ts'
import { memoryStore } from '../../stores/memory/index.ts'
import type { LimitStatus, SyncStore } from '../../stores/store.ts'
import { Heap } from './heap.ts'
import type { LogEntry, LoggedRequest } from '../logs/request.ts'
import type { LogSettings } from '../logs/options.ts'
import type { LogSummary } from '../logs/read.ts'
import { type LimitExpression, limitFor } from './expression.ts'
import { shown, SluiceError } from '../../util/errors.ts'
import { Tally, type TallyReport } from './tally.ts'

/** How often the decisions of a limit differ from an exact log of its window. */
interface ExactReport {
  /** The number of requests that were compared: those before there were more keys than the stores can keep separate. */
  compared: number
  /** The number of requests that the limit denied and the exact log admitted. */
  tooStrict: number
  /** The number of requests that the limit admitted and the exact log denied. */
  tooLenient: number
}

type Decide = (entry: LogEntry) => Decision

/** Slots that are held until `end`, and the time when they are renewed or released. */
interface Running {
  readonly limiter: Limiter<never, Decision>
  readonly decision: Decision
  readonly end: number
  readonly lease: number
  readonly time: number
}

/** A store whose clock shows the time of the current entry. */
class LogStore {
  readonly store: SyncStore
  /** True if a limit has had more keys than the store can keep separate. */
  isFull = false
  #now = 0
  readonly #running = new Heap<Running>()

  constructor(maxKeys: number) {
    this.store = memoryStore({ maxKeys, clock: { now: () => this.#now }, onFull: () => void (this.isFull = true) })
  }

  /**
   * Decides at the time of a request, and keeps the slots of the decision until the end of the request. Throws `INVALID_OPTION` if the log does
   * not contain the end.
   */
  decide(limiter: Limiter<never, Decision>, { time, took }: LoggedRequest, consume: () => Decision): Decision {
    this.#moveTo(time)
    const decision = consume()
    if (!holdsSlots(decision)) return decision
    if (took === undefined) throw noEnds(decision)
    const lease = Math.min(...decision.limits.flatMap(({ limit }) => (countsSlots(limit) ? [limit.window] : [])))
    const end = time + took
    this.#running.add({ limiter, decision, end, lease, time: Math.min(end, time + lease / 2) })
    return decision
  }

  #moveTo(time: number): void {
    const running = this.#running
    for (let first = running.first; first !== undefined && first.time <= time; first = running.first) {
      running.shift()
      const now = (this.#now = first.time)
      if (now >= first.end) first.limiter.release(first.decision)
      else {
        void first.limiter.renew(first.decision)
        running.add({ ...first, time: Math.min(first.end, now + first.lease / 2) })
      }
    }
    this.#now = time
  }
}

function noEnds({ limits }: Decision): SluiceError {
  const { name, algorithm } = limits.map(({ limit }) => limit).find(countsSlots)!
  return new SluiceError(
    'INVALID_OPTION',
    `Limit ${shown(name)}: ${algorithm} counts requests that run at the same time, and this log does not say when they end. ` +
      'Logs of Caddy and pino-http do. Replay the other limits without it',
  )
}

const NO_KEY = '(no key)'

/** Makes one limiter with several limits. They decide in one transaction. */
function limitsDecider(expressions: readonly LimitExpression[], place: LogStore, { hasCosts }: LogSettings): Decide {
  const limits = expressions.map(({ limit, matches }) =>
    matches === undefined
      ? limit
      : ({ request }: LogEntry): Limit | readonly Limit[] => (matches(request) ? limit : unlimited),
  )
  const keyer = ({ key }: LogEntry): string => key || NO_KEY
  const cost = ({ cost: units }: LogEntry): number => units
  const limiter = createLimiter<LogEntry>({ keyer, limits, store: place.store, ...(hasCosts && { cost }) })
  return (entry) => place.decide(limiter, entry.request, () => limiter.consume(entry))
}

/** Makes a limiter with rules. Rules can match the method, the path, the address, the headers, and the fields of the log as attributes. */
function rulesDecider(compiled: CompiledRules, place: LogStore, { hasCosts }: LogSettings): Decide {
  const limiter = createLimiter({ rules: new Rules<RulesInput>(compiled, {}), store: place.store })
  // The store answers at once, and the attributes are not a promise. Without costs of the log, policies have their own.
  const consume = ({ request, cost }: LogEntry): Decision =>
    limiter.consume(inputOf(request), hasCosts ? { cost } : {}) as Decision
  return (entry) => place.decide(limiter as Limiter<never, Decision>, entry.request, () => consume(entry))
}

/** Returns the input for rules. It need not be copied: keys in the store share no memory with the log. */
function inputOf({ method, path, ip, headers, fields }: LoggedRequest): RulesInput {
  return {
    ...(method !== '' && { method: copyText(method) }),
    ...(path !== '' && { path: copyText(path) }),
    ...(ip !== '' && { ip }),
    ...(headers && { headers }),
    ...(fields && { attributes: fields }),
  }
}

export interface LimitReport extends TallyReport {
  /** The text of the limit, or the name of the policy and the limit. */
  readonly limit: string
  /** With `--compare`. */
  readonly exact: ExactReport | undefined
}

interface ReplayReport {
  /** The decisions of all limits together: a request is denied if any limit denies. `undefined` with `--compare`. */
  readonly decisions: TallyReport | undefined
  readonly limits: readonly LimitReport[]
  readonly notes: readonly string[]
}

/** Replays entries in the order of their times. */
export interface Replay {
  /** Decides about an entry. Returns nothing with `--compare`. */
  decide(entry: LogEntry): Decision | undefined
  report(): ReplayReport
}

/** Replays several limits as one transaction. */
export function replayLimits(expressions: readonly LimitExpression[], options: LogSettings): Replay {
  const place = new LogStore(options.maxKeys)
  const labels = new Map(expressions.map(({ text, limit }) => [limit, text]))
  const tallies = new Map(expressions.map(({ text, limit }) => [text, tallyFor(limit, options)]))
  const decide = limitsDecider(expressions, place, options)
  return transaction(decide, place, options, ({ limit }) => labels.get(limit)!, tallies)
}

/** Replays rules. They are compiled with the `ipv6Subnet` of the options. */
export function replayRules(rules: CompiledRules, options: LogSettings): Replay {
  const place = new LogStore(options.maxKeys)
  const label = ({ limiter, limit }: LimitStatus): string => `${limiter.slice('rules/'.length)}: ${limit.name}`
  return transaction(rulesDecider(rules, place, options), place, options, label, new Map())
}

function tallyFor({ shadow }: Limit, { maxKeys }: LogSettings): Tally {
  return new Tally(shadow === true, maxKeys)
}

/**
 * Replays decisions about all limits together.
 * @param tallies the tallies that are reported first, by the labels of their limits
 */
function transaction(
  decide: Decide,
  place: LogStore,
  options: LogSettings,
  label: (status: LimitStatus) => string,
  tallies: Map<string, Tally>,
): Replay {
  const whole = new Tally(false, options.maxKeys)
  return {
    decide(entry) {
      const decision = decide(entry)
      const { time } = entry.request
      for (const status of decision.limits) {
        const text = label(status)
        if (!tallies.has(text)) tallies.set(text, tallyFor(status.limit, options))
        tallies.get(text)!.add(status.key, time, status.allowed)
      }
      whole.add(decision.binding?.key ?? entry.key, time, decision.allowed)
      return decision
    },
    report: () => ({
      decisions: whole.report(),
      limits: Array.from(tallies, ([limit, tally]) => ({ limit, ...tally.report(), exact: undefined })),
      notes: place.isFull ? [FULL] : [],
    }),
  }
}

const FULL =
  'there were more keys than --max-keys: some shared a counter, so they may be denied here and not by a server with more room'
const NOT_COMPARED = 'from the first key above --max-keys on, requests are not compared with an exact log'

/**
 * Replays each limit alone, and compares its decisions with an exact log that has the same quota and window. With one limit, all
 * algorithms are compared.
 */
export function replayCompared(given: readonly LimitExpression[], options: LogSettings): Replay {
  for (const { text, limit } of given)
    if (countsSlots(limit))
      throw new SluiceError('INVALID_OPTION', `--limit ${shown(text)}: expected a limit with a window for --compare`)
  const contestants = (given.length === 1 ? everyAlgorithm(given[0]!) : given).map((expression) => {
    const [place, exactPlace] = [new LogStore(options.maxKeys), new LogStore(options.maxKeys)]
    return {
      text: expression.text,
      place,
      exactPlace,
      decide: limitsDecider([expression], place, options),
      decideExactly: limitsDecider([exactLogOf(expression)], exactPlace, options),
      tally: tallyFor(expression.limit, options),
      exact: { compared: 0, tooStrict: 0, tooLenient: 0 },
    }
  })
  return {
    decide(entry) {
      for (const { place, exactPlace, decide, decideExactly, tally, exact } of contestants) {
        const expected = decideExactly(entry).allowed
        for (const { key, allowed } of decide(entry).limits) {
          tally.add(key, entry.request.time, allowed)
          // Keys that share a counter are counted in different ways.
          if (place.isFull || exactPlace.isFull) continue
          exact.compared++
          if (expected && !allowed) exact.tooStrict++
          if (!expected && allowed) exact.tooLenient++
        }
      }
      return undefined
    },
    report: () => ({
      decisions: undefined,
      limits: contestants.map(({ text, tally, exact }) => ({ limit: text, ...tally.report(), exact })),
      notes: [
        ...(contestants.some(({ place }) => place.isFull) ? [FULL] : []),
        ...(contestants.some(({ place, exactPlace }) => place.isFull || exactPlace.isFull) ? [NOT_COMPARED] : []),
      ],
    }),
  }
}

/** Returns the exact log of a limit: `slidingWindowLog` with the same quota and window. */
function exactLogOf({ text, limit: { quota, window }, matches }: LimitExpression): LimitExpression {
  const algorithm = 'slidingWindowLog'
  return { text, limit: limitFor(text, { algorithm, quota, window }), matches }
}

/** Returns a limit, and limits with the same quota and window for every other algorithm that accepts them. */
function everyAlgorithm(given: LimitExpression): LimitExpression[] {
  const { quota, window, shadow } = given.limit
  // `spacing` and `concurrent` have no quota in a window: one is a gap between two requests, the other a number of running requests.
  const others = knownAlgorithms().filter(
    ({ name, renew }) => name !== given.limit.algorithm && name !== 'spacing' && renew === undefined,
  )
  const made = others.flatMap(({ name }) => {
    const found = limitOrNone({ algorithm: name, quota, window: `${window}ms`, ...(shadow && { shadow }) })
    return found === undefined ? [] : [{ ...given, text: `${name} ${quota}/${windowText(found)}`, limit: found }]
  })
  return [given, ...made]
}

/** Returns `undefined` for an algorithm that refuses the quota or the window. */
function limitOrNone(input: LimitInput): Limit | undefined {
  try {
    return limit(input)
  } catch (error) {
    if (error instanceof SluiceError) return undefined
    throw error
  }
}

export interface Report extends ReplayReport {
  readonly log: LogSummary
}
