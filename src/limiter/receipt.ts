import { type Limit, limitFromData, type LimitInput } from '../engine/limit.ts'
import { Charge, createPolicy, type Policy, type Store } from '../stores/store.ts'
import { shared } from '../util/copies.ts'
import { copyText } from '../util/bounded-key.ts'
import { messageOf, reasonOf, shown, SluiceError } from '../util/errors.ts'
import { sha256 } from '../util/sha256.ts'
import { chargesOf, type ChargeSource, checkedCost } from './charges.ts'
import { combine, type Decision } from './decision.ts'

/**
 * Receipts: what a decision has charged, as a short text that another process can settle.
 *
 * `sluice1_`, 11 characters of a SHA-256 over the version and all that follows, and JSON as UTF-8, both in base64url. The JSON is a list: an
 * identity of the decision, and for each charge the limiter, the limit as data, the key, the cost, the tick of the charge and the units
 * charged.
 */
const FORMAT = 1
const FORM = /^sluice([1-9]\d{0,3})_([\w-]+)$/
/** The length of a checksum in base64url: 8 bytes. */
const CHECKSUM = 11
/** The most characters of a receipt. */
export const LONGEST_RECEIPT = 16_384
/** The decisions whose receipts are known in this process. The oldest go first. */
const MOST_DECISIONS = 10_000
/** The policies that are kept for a store. */
const MOST_POLICIES = 1000
/** Longer than any identity, key, or name of a limiter with a policy. */
const LONGEST_ID = 32
const LONGEST_KEY = 256
const LONGEST_NAME = 512

type Written = readonly [limiter: string, limit: Limit, key: string, cost: number, at: number, charged: number]

/** A charge as a receipt has it. */
interface Noted {
  readonly limiter: string
  readonly limit: Limit
  readonly key: string
  readonly cost: number
  readonly at: number
  readonly charged: number
}

const known = shared('receipts', () => ({
  ids: new WeakMap<Decision, string>(),
  decisions: new Map<string, Decision>(),
}))

function remember(id: string, decision: Decision): void {
  known.ids.set(decision, id)
  known.decisions.delete(id)
  if (known.decisions.size >= MOST_DECISIONS) known.decisions.delete(known.decisions.keys().next().value!)
  known.decisions.set(id, decision)
}

/** Returns the receipt of a decision. What was done with it already is not in the receipt. Throws `INVALID_OPTION` and `INVALID_RECEIPT`. */
export function receiptOf(decision: Decision, isSettled: boolean): string {
  const charges = countedOf(decision).filter(({ policy }) => policy.compiled.slots || !isSettled)
  const id = known.ids.get(decision) ?? base64url(crypto.getRandomValues(new Uint8Array(12)))
  const written = charges.map(({ limiter, limit, key, cost, at, charged }): Written => [
    limiter,
    limit,
    key,
    cost,
    at,
    charged,
  ])
  const body = base64url(new TextEncoder().encode(JSON.stringify([id, ...written])))
  const text = `sluice${FORMAT}_${checksum(body)}${body}`
  if (text.length > LONGEST_RECEIPT) {
    const size = `${text.length} characters, and at most ${LONGEST_RECEIPT} are possible`
    throw invalid(
      `the receipt of this decision, with ${charges.length} charges, has ${size}. Settle the decision itself`,
    )
  }
  remember(id, decision)
  return text
}

/** The charges that another process can settle. A decision without the store, a denial and a peek have charged nothing there. */
function countedOf(decision: Decision): readonly Charge[] {
  const charges = chargesOf(decision)
  if (!decision.allowed || decision.degraded !== undefined) return []
  // Slots that were given back are not charged any more.
  return charges.filter(({ allowed, cost, charged }) => allowed && (cost === 0 || charged > 0))
}

/**
 * Returns the decision of a receipt, for a limiter of these sources: the one in this process, or one with the same charges. Throws
 * `INVALID_RECEIPT`, `FOREIGN_RECEIPT`, and `VERSION_MISMATCH` for a receipt of a newer format.
 */
export function decisionOf<Input>(text: string, sources: readonly ChargeSource<Input>[], store: Store): Decision {
  const { id, charges } = read(text)
  const own = sources.find((source) => charges.some(({ limiter }) => source.owns(limiter)))
  if (own === undefined && charges.length > 0) throw foreign(charges, sources)
  const before = known.decisions.get(id)
  if (before !== undefined) return renewedElsewhere(before, charges)
  const decision = combine(
    charges.map((each) => chargeOf(each, store, own!.home)),
    undefined,
  )
  remember(id, decision)
  return decision
}

/** A renewal in another process has moved the slots of a decision, and given a new receipt. */
function renewedElsewhere(decision: Decision, noted: readonly Noted[]): Decision {
  for (const charge of chargesOf(decision)) {
    if (!charge.policy.compiled.slots || charge.charged === 0) continue
    const { limiter, limit, key } = charge
    const newer = noted.find(
      (each) => each.at > charge.at && each.key === key && each.limiter === limiter && each.limit.name === limit.name,
    )
    if (newer !== undefined) charge.markCharged(newer.at, newer.charged)
  }
  return decision
}

function chargeOf({ limiter, limit, key, cost, at, charged }: Noted, store: Store, home: object): Charge {
  const charge = new Charge(policyOf(limiter, limit, store, home), copyText(key), cost)
  charge.allowed = true
  charge.markCharged(at, charged)
  return charge
}

const policies = new WeakMap<Store, Map<string, Policy>>()

/** Equal limits have one policy, for which a store computes what it needs once. */
function policyOf(limiter: string, limit: Limit, store: Store, home: object): Policy {
  const made = policies.get(store) ?? new Map<string, Policy>()
  policies.set(store, made)
  const id = JSON.stringify([limiter, limit])
  const policy = made.get(id) ?? createPolicy(limiter, limit, store, home)
  made.delete(id)
  if (made.size >= MOST_POLICIES) made.delete(made.keys().next().value!)
  made.set(id, policy)
  return policy
}

function read(text: string): { readonly id: string; readonly charges: readonly Noted[] } {
  const body = checkedBody(text)
  try {
    const [id, ...charges] = JSON.parse(decoded(body)) as readonly unknown[]
    if (typeof id !== 'string' || id.length > LONGEST_ID) throw new TypeError(`expected an identity, got ${shown(id)}`)
    return { id, charges: charges.map(noted) }
  } catch (error) {
    const reason = error instanceof SluiceError ? reasonOf(error) : messageOf(error)
    throw invalid(`its content is damaged: ${reason}`, error)
  }
}

/** Returns the part behind the checksum. */
function checkedBody(text: string): string {
  if (text.length > LONGEST_RECEIPT)
    throw invalid(`it has ${text.length} characters, and at most ${LONGEST_RECEIPT} are read`)
  const [, version, rest] = FORM.exec(text) ?? []
  if (version === undefined || rest === undefined)
    throw invalid(`expected a text of limiter.receipt(decision), got ${shown(text)}`)
  if (Number(version) > FORMAT) {
    throw new SluiceError(
      'VERSION_MISMATCH',
      `receipt: expected format ${FORMAT}, got format ${version} of a newer sluice. Install the same version in the process that settles.`,
    )
  }
  const body = rest.slice(CHECKSUM)
  if (rest.slice(0, CHECKSUM) !== checksum(body)) throw invalid('it was cut or changed')
  return body
}

function noted(given: unknown): Noted {
  if (!Array.isArray(given)) throw new TypeError(`expected a charge, got ${shown(given)}`)
  const [limiter, limit, key, cost, at, charged] = given as readonly unknown[]
  return {
    limiter: shortText(limiter, LONGEST_NAME),
    limit: limitFromData(limit as LimitInput),
    key: shortText(key, LONGEST_KEY),
    cost: checkedCost(cost),
    at: numberFrom(at, -Number.MAX_SAFE_INTEGER),
    charged: numberFrom(charged, 0),
  }
}

function shortText(given: unknown, longest: number): string {
  if (typeof given === 'string' && given.length <= longest) return given
  throw new TypeError(`expected a text of at most ${longest} characters, got ${shown(given)}`)
}

function numberFrom(given: unknown, least: number): number {
  if (typeof given === 'number' && given >= least && given <= Number.MAX_SAFE_INTEGER) return given
  throw new TypeError(`expected a number from ${least}, got ${shown(given)}`)
}

function invalid(reason: string, cause?: unknown): SluiceError {
  return new SluiceError('INVALID_RECEIPT', `receipt: ${reason}`, cause === undefined ? undefined : { cause })
}

function foreign<Input>(charges: readonly Noted[], sources: readonly ChargeSource<Input>[]): SluiceError {
  const names = [...new Set(charges.map(({ limiter }) => limiter))].slice(0, 3)
  const own = [...new Set(sources.map(({ name }) => name))]
  return new SluiceError(
    'FOREIGN_RECEIPT',
    `receipt: expected a receipt of limiter ${own.map(shown).join(' or ')}, got one of ${names.map(shown).join(', ')}. ` +
      'Settle it with a limiter of that name, on the same store.',
  )
}

function checksum(body: string): string {
  return base64url(sha256(new TextEncoder().encode(`sluice${FORMAT}_${body}`)).subarray(0, 8))
}

function base64url(bytes: Uint8Array): string {
  let text = ''
  for (const byte of bytes) text += String.fromCharCode(byte)
  return btoa(text).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')
}

function decoded(body: string): string {
  const bytes = atob(body.replaceAll('-', '+').replaceAll('_', '/'))
  return new TextDecoder('utf-8', { fatal: true }).decode(Uint8Array.from(bytes, (each) => each.charCodeAt(0)))
}
