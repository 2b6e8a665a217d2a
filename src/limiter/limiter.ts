import type { Limiter } from './contract.ts'
import type { Decision } from './decision.ts'
import { decisionObserver } from './decision-observer.ts'
import { DefaultLimiter } from './default-limiter.ts'
import { SluiceError } from '../util/errors.ts'
import type { Key } from './keyers.ts'
import {
  type LimiterOptions,
  type RulesLimiterOptions,
  type SyncLimiterOptions,
  validateOptions,
  validateRulesOptions,
} from './options.ts'
import { ChargeBuilder } from './charge-builder.ts'
import { type InputReader, plainReader, type RulesInput } from './rule-source.ts'
import type { ChargeSource } from './charge-source.ts'
import { type AsyncStore, decideTogether } from '../stores/store.ts'
import { copyText } from '../util/copy-text.ts'
import { memoryStore } from '../stores/memory/index.ts'
import { refuse } from '../util/validate.ts'
import { isOwn } from './own-limiter.ts'
import { countsFromZero, homeOf, register } from './registration.ts'

export type { ConsumeOptions, Limiter } from './contract.ts'

/**
 * Makes a limiter from a keyer, limits and a store. It returns a decision if keyer, limits, cost and store return values at
 * once, else a promise of one.
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
  options: LimiterOptions<Input> & { readonly keyer: (input: Input) => Promise<Key | undefined> },
): Limiter<Input, Promise<Decision>>
export function createLimiter<Input>(options: LimiterOptions<Input>): Limiter<Input>
export function createLimiter<Input extends RulesInput = RulesInput>(
  options: RulesLimiterOptions<Input> & { readonly store: AsyncStore },
): Limiter<Input, Promise<Decision>>
export function createLimiter<Input extends RulesInput = RulesInput>(
  options: RulesLimiterOptions<Input>,
): Limiter<Input>
export function createLimiter<Input>(options: LimiterOptions<Input> | RulesLimiterOptions<Input>): Limiter<Input> {
  if (hasRules(options)) return createRulesLimiter(options, plainReader as InputReader<Input>)
  validateOptions(options)
  const name = copyText(options.name ?? 'default')
  const store = options.store ?? memoryStore()
  const home = homeOf(name, store, options)
  const builder = new ChargeBuilder(options, name, store, home, countsFromZero(options.store))
  register(name, store, home)
  return new DefaultLimiter([builder], store)
}

function hasRules<Input>(
  options: LimiterOptions<Input> | RulesLimiterOptions<Input>,
): options is RulesLimiterOptions<Input> {
  return (options as Partial<RulesLimiterOptions<Input>> | undefined)?.rules !== undefined
}

/** Makes a limiter from rules. `reader` reads its inputs. Throws as `createLimiter` does. */
export function createRulesLimiter<Input>(
  options: RulesLimiterOptions<Input>,
  reader: InputReader<Input>,
): Limiter<Input> {
  validateRulesOptions(options)
  const { name = 'rules', store = memoryStore(), rules } = options
  const home = homeOf(name, store, options)
  const onDecision = options.onDecision && decisionObserver(options.onDecision)
  const place = { name, store, home, reader, startsFromZero: countsFromZero(options.store), onDecision }
  const source = rules.chargeSource(place)
  register(name, store, home)
  return new DefaultLimiter([source], store)
}

/**
 * Combines limiters into one. Either all limits of all limiters admit an input, or nothing is charged.
 * Throws `STORE_MISMATCH` if they do not share a store, `VERSION_MISMATCH` for a limiter of another version of the package, and
 * `INVALID_OPTION` without a limiter or for any other value.
 * @example const both = stack(perUser, perResource)
 */
export function stack<Input>(...limiters: readonly Limiter<Input, Decision>[]): Limiter<Input, Decision>
export function stack<Input>(
  ...limiters: readonly Limiter<Input, Promise<Decision>>[]
): Limiter<Input, Promise<Decision>>
export function stack<Input>(...limiters: readonly Limiter<Input>[]): Limiter<Input>
export function stack<Input>(...limiters: readonly Limiter<Input>[]): Limiter<Input> {
  const builders = limiters.flatMap((each) => sourcesOf(each))
  const store = builders[0]?.store
  if (store === undefined) refuse('stack', 'one limiter or more', undefined)
  for (const builder of builders) {
    if (decideTogether(store, builder.store)) continue
    throw new SluiceError(
      'STORE_MISMATCH',
      `Limiters "${builders[0]!.name}" and "${builder.name}" use different stores. Give both the same \`store\`.`,
    )
  }
  return new DefaultLimiter(builders, store)
}

function sourcesOf<Input>(limiter: Limiter<Input>): readonly ChargeSource<Input>[] {
  if (isOwn(limiter)) return limiter.sources
  return refuse('stack', 'limiters of createLimiter or stack, as separate arguments', limiter)
}
