import { type AsyncStore, decideTogether, leasedBy, type Store, type SyncStore } from '../stores/store.ts'
import type { AnswerOfAll, InputOfAll, Limiter } from './contract.ts'
import { SluiceError } from '../util/errors.ts'
import type { Key } from './keyers.ts'
import {
  type LimiterOptions,
  RULES,
  type RulesLimiterOptions,
  type RuleSource,
  type SyncLimiterOptions,
  validateOptions,
} from './options.ts'
import type { Decision } from './decision.ts'
import { ownOptions, refuse } from '../util/validate.ts'
import { ChargeBuilder } from './charge-builder.ts'
import { DefaultLimiter, isOwn } from './default-limiter.ts'
import { countsFromZero, registered } from './registration.ts'
import type { InputReader, RulesInput } from './rule-source.ts'
import { copyText } from '../util/bounded-key.ts'
import { refuseOtherVersion } from '../util/copies.ts'
import {
  type DecisionOf,
  inLimiter,
  type InputOf,
  limitersIn,
  type StackedLimiter,
  type StackOptions,
  type SyncStackOptions,
} from './stack.ts'
import { memoryStore } from '../stores/memory/index.ts'
import { watched } from './created-per-request.ts'

export type { ConsumeOptions, Limiter } from './contract.ts'

// The compiler reports a mistake by the last overload, so the most used options are last.
/**
 * Makes a limiter from rules of `sluice/rules`, in place of a keyer and limits.
 * Throws `INVALID_OPTION`, `UNKNOWN_OPTION` and `DUPLICATE_LIMITER`.
 * @example const limiter = createLimiter({ rules: await rulesFromFile('limits.json') })
 */
export function createLimiter<Input extends RulesInput = RulesInput>(
  options: RulesLimiterOptions<Input> & { readonly store: AsyncStore },
): Limiter<Input, Promise<Decision>>
export function createLimiter<Input extends RulesInput = RulesInput>(
  options: RulesLimiterOptions<Input>,
): Limiter<Input>
/**
 * Makes a limiter from a keyer, limits and a store. It returns a decision if keyer, limits, cost and store return values at
 * once, otherwise a promise of one.
 *
 * Throws `SluiceError`: `INVALID_OPTION`, `UNKNOWN_OPTION`, `DUPLICATE_LIMIT` for two limits of one name, `DUPLICATE_LIMITER`
 * for two limiters with the same name on one store, or on stores that count in the same place, unless one is `shared` or both have
 * equal limits and the same functions.
 * @example
 * const limiter = createLimiter({ keyer: (user: { id: string }) => user.id, limits: [perSecond(10), perMinute(100)] })
 * if (!limiter.consume(user).allowed) throw new Error('slow down')
 */
export function createLimiter<Input>(options: SyncLimiterOptions<Input>): Limiter<Input, Decision>
export function createLimiter<Input>(
  options: LimiterOptions<Input> & { readonly store: AsyncStore },
): Limiter<Input, Promise<Decision>>
export function createLimiter<Input>(
  options: LimiterOptions<Input> & { readonly keyer: (input: Input) => Promise<Key | null | undefined> },
): Limiter<Input, Promise<Decision>>
export function createLimiter<Input>(options: LimiterOptions<Input>): Limiter<Input>
export function createLimiter<Input>(options: LimiterOptions<Input> | RulesLimiterOptions<Input>): Limiter<Input> {
  const { rules } = ownOptions(options) as Partial<RulesLimiterOptions<Input>>
  if (rules !== undefined) return createRulesLimiter(options as RulesLimiterOptions<Input>)
  return watched(createPlainLimiter(options as LimiterOptions<Input>))
}

/** Makes a limiter without rules for an adapter, which has its own check for limiters that a handler creates. Throws as `createLimiter` does. */
export function createPlainLimiter<Input>(options: LimiterOptions<Input>): DefaultLimiter<Input> {
  const own = validateOptions(options)
  return new DefaultLimiter([chargeBuilder(own, own.store ?? memoryStore(), countsFromZero(own.store))])
}

function chargeBuilder<Input>(
  options: LimiterOptions<Input>,
  given: Store,
  startsFromZero: boolean,
): ChargeBuilder<Input> {
  const name = copyText(options.name ?? 'default')
  const store = options.lease === undefined || options.lease === false ? given : leasedBy(given)
  return registered(name, store, options, (home) => new ChargeBuilder(options, { name, store, home, startsFromZero }))
}

/**
 * Makes a limiter from rules. The rules contain the code for it. Throws as `createLimiter` does.
 * @param reader reads inputs. Default: they are plain objects
 */
export function createRulesLimiter<Input>(
  options: RulesLimiterOptions<Input>,
  reader?: InputReader<Input>,
): Limiter<Input> {
  const { rules } = ownOptions(options)
  refuseOtherVersion('rules', rules, RULES)
  if (typeof (rules as Partial<RuleSource<Input>> | undefined)?.limiter === 'function')
    return rules.limiter(options, reader)
  return refuse('rules', 'rules of sluice/rules, such as await rulesFromFile(path) or createRules(document)', rules)
}

/**
 * Makes one limiter of several with different keys, such as a limit for all users together and one for each user. Either all limits of all
 * limiters admit an input, or nothing is charged. It takes the options of the limiters and their one `store`, or limiters of `createLimiter`.
 * Its input must have everything that its limiters read.
 *
 * Throws as `createLimiter` does, with the place of the limiter, `STORE_MISMATCH` for limiters that do not share a store, `VERSION_MISMATCH` for a
 * limiter of another version of the package, and `INVALID_OPTION` without a limiter or for any other value.
 * @example
 * const limiter = stack({
 *   limiters: [
 *     { keyer: everyone, limits: perMinute(1000) },
 *     { keyer: (user: { id: string }) => user.id, limits: perMinute(100) },
 *   ],
 * })
 * @example const both = stack(perUser, perResource)
 */
export function stack<const Limiters extends readonly Limiter<never>[]>(
  ...limiters: Limiters
): Limiter<InputOfAll<Limiters>, AnswerOfAll<Limiters>>
export function stack<Input>(options: SyncStackOptions<Input>): Limiter<Input, Decision>
export function stack<Input>(
  options: StackOptions<Input> & { readonly store: AsyncStore },
): Limiter<Input, Promise<Decision>>
export function stack<const Limiters extends readonly StackedLimiter<never>[], Given extends Store = SyncStore>(
  options: StackOptions<never> & { readonly limiters: Limiters; readonly store?: Given },
): Limiter<InputOf<Limiters>, DecisionOf<Limiters, Given>>
export function stack<Input>(options: StackOptions<Input>): Limiter<Input>
export function stack<Input>(...given: readonly [StackOptions<Input>] | readonly Limiter<Input>[]): Limiter<Input> {
  const [first] = given
  if (given.length === 1 && isStackOptions(first)) return createStack(first)
  const limiters = given as readonly Limiter<Input>[]
  const expected =
    'limiters of createLimiter or stack, as separate arguments, or { limiters: [{ keyer, limits }, { keyer, limits }] }'
  const builders = limiters.flatMap((each) => (isOwn(each) ? each.sources : refuse('stack', expected, each)))
  const builder = builders[0] ?? refuse('stack', 'one limiter or more', undefined)
  for (const { name, store } of builders) {
    if (decideTogether(builder.store, store)) continue
    throw new SluiceError(
      'STORE_MISMATCH',
      `Limiters "${builder.name}" and "${name}" use different stores. Give both the same \`store\`.`,
    )
  }
  return new DefaultLimiter(builders)
}

function isStackOptions<Input>(given: StackOptions<Input> | Limiter<Input> | undefined): given is StackOptions<Input> {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return false
  return !('consume' in given)
}

function createStack<Input>(options: StackOptions<Input>): Limiter<Input> {
  const limiters = limitersIn(options)
  const store = limiters[0]!.store ?? memoryStore()
  const startsFromZero = countsFromZero(limiters[0]!.store)
  return watched(
    new DefaultLimiter(limiters.map((each, i) => inLimiter(i, () => chargeBuilder(each, store, startsFromZero)))),
  )
}
