import type { Decision } from '../../limiter/decision.ts'
import { knownAlgorithms, type Limit, limit, type LimitInput, windowText } from '../../limits/limit.ts'
import type { RulesDocument } from '../../rules/document.ts'
import type { LimitStatus } from '../../stores/store.ts'
import { SluiceError } from '../../util/errors.ts'
import type { LogEntry } from '../logs/entry.ts'
import type { LogSettings } from '../logs/options.ts'
import { ExactLog, type ExactReport } from './exact-log.ts'
import type { LimitExpression } from './expression.ts'
import { type Decide, limitsDecider, type LogStore, logStore, rulesDecider } from './limiters.ts'
import { Tally, type TallyReport } from './tally.ts'

/** What one limit has decided. */
export interface LimitReport extends TallyReport {
  /** The limit as it was written, or the name of the policy and the limit. */
  readonly limit: string
  /** With `--compare`. */
  readonly exact: ExactReport | undefined
}

/** What all limits have decided. */
export interface ReplayReport {
  /** Whole decisions: denied if any limit denies. `undefined` with `--compare`. */
  readonly decisions: TallyReport | undefined
  readonly limits: readonly LimitReport[]
  readonly notes: readonly string[]
}

/** Replays entries in the order of their times. */
export interface Replay {
  /** Returns the verdicts about an entry, and whether it is admitted; `undefined` with `compare`. */
  decide(entry: LogEntry): { readonly allowed: boolean | undefined; readonly limits: readonly LimitStatus[] }
  report(): ReplayReport
}

/** Replays several limits as one transaction. */
export function replayLimits(expressions: readonly LimitExpression[], options: LogSettings, hasCosts: boolean): Replay {
  const place = logStore(options.maxKeys)
  const decide = limitsDecider(expressions, place, hasCosts)
  const labels = new Map(expressions.map(({ text, limit }) => [limit, text]))
  const label = (status: LimitStatus): string => labels.get(status.limit)!
  return transaction(decide, place, options, label, expressions)
}

/** Replays a document of rules. */
export function replayRules(document: RulesDocument, options: LogSettings): Replay {
  const place = logStore(options.maxKeys)
  const label = ({ limiter, limit: { name } }: LimitStatus): string => `${limiter.replace(/^rules\//, '')}: ${name}`
  return transaction(rulesDecider(document, place, options), place, options, label)
}

function transaction(
  decide: Decide,
  place: LogStore,
  { maxKeys }: LogSettings,
  label: (status: LimitStatus) => string,
  expressions: readonly LimitExpression[] = [],
): Replay {
  const whole = new Tally(false, maxKeys)
  const tallies = new Map<string, Tally>()
  const byLimit = new Map<Limit, Map<string, Tally>>()
  for (const { text, limit: made } of expressions) tallies.set(text, new Tally(made.shadow === true, maxKeys))

  /** Finds the tally of a limit by its label, which is made once for each limit and limiter. */
  function tallyOf(status: LimitStatus): Tally {
    const known = byLimit.get(status.limit)?.get(status.limiter)
    if (known !== undefined) return known
    const text = label(status)
    const tally = tallies.get(text) ?? new Tally(status.limit.shadow === true, maxKeys)
    tallies.set(text, tally)
    byLimit.set(status.limit, (byLimit.get(status.limit) ?? new Map<string, Tally>()).set(status.limiter, tally))
    return tally
  }

  return {
    decide(entry) {
      const decision: Decision = decide(entry)
      const { time } = entry.request
      for (const status of decision.limits) tallyOf(status).add(status.key, time, status.allowed)
      whole.add(decision.binding?.key ?? entry.key, time, decision.allowed)
      return decision
    },
    report: () => ({
      decisions: whole.report(),
      limits: [...tallies].map(([text, tally]) => limitReport(text, tally)),
      notes: place.isFull ? [FULL] : [],
    }),
  }
}

function limitReport(text: string, tally: Tally, exact?: ExactLog): LimitReport {
  return { limit: text, ...tally.report(), exact: exact?.report() }
}

const FULL =
  'there were more keys than --max-keys: some shared a counter, so they may be denied here and not by a server with more room'

/** One limit of a comparison, by itself. */
interface Contestant {
  readonly expression: LimitExpression
  readonly place: LogStore
  readonly decide: Decide
  readonly tally: Tally
  readonly exact: ExactLog
}

/**
 * Replays each limit by itself, and compares its decisions with those of an exact log with its quota and window. With one limit, all
 * algorithms are compared.
 */
export function replayCompared(given: readonly LimitExpression[], options: LogSettings, hasCosts: boolean): Replay {
  const contestants = (given.length === 1 ? everyAlgorithm(given[0]!) : given).map((expression): Contestant => {
    const place = logStore(options.maxKeys)
    const { limit: made } = expression
    return {
      expression,
      place,
      decide: limitsDecider([expression], place, hasCosts),
      tally: new Tally(made.shadow === true, options.maxKeys),
      exact: new ExactLog(made.quota, made.window, options.maxKeys),
    }
  })
  return {
    decide(entry) {
      return { allowed: undefined, limits: contestants.flatMap((each) => compared(each, entry)) }
    },
    report: () => ({
      decisions: undefined,
      limits: contestants.map(({ expression, tally, exact }) => limitReport(expression.text, tally, exact)),
      notes: contestants.some(({ place }) => place.isFull) ? [FULL] : [],
    }),
  }
}

function compared({ decide, tally, exact }: Contestant, entry: LogEntry): readonly LimitStatus[] {
  const { limits } = decide(entry)
  const [status] = limits
  if (status === undefined) return limits
  tally.add(status.key, entry.request.time, status.allowed)
  exact.compare(status.key, entry.request.time, status.cost, status.allowed)
  return limits
}

/** Returns a limit, and the same quota and window with every other algorithm that takes them. */
function everyAlgorithm(given: LimitExpression): LimitExpression[] {
  const { quota, window, shadow } = given.limit
  // A gap between two requests is no quota in a window.
  const others = knownAlgorithms().filter(({ name }) => name !== given.limit.algorithm && name !== 'spacing')
  const made = others.flatMap(({ name }) => {
    const input = { algorithm: name, quota, window: `${window}ms`, ...(shadow && { shadow }) }
    const found = limitOrNone(input)
    return found === undefined
      ? []
      : [{ text: `${name} ${quota}/${windowText(found)}`, limit: found, matches: given.matches }]
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
