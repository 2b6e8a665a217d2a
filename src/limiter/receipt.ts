import { limitFromData, type LimitInput } from '../engine/limit.ts'
import { Charge, createPolicy, type ReceiptUse, type Store } from '../stores/store.ts'
import { shared } from '../util/copies.ts'
import { copyText } from '../util/bounded-key.ts'
import { shown, SluiceError, whyOf } from '../util/errors.ts'
import { isEqualText } from '../util/equal-text.ts'
import { hmacSha256, sha256 } from '../util/sha256.ts'
import { chargesOf, type ChargeSource, checkedCost } from './charges.ts'
import { combine, type Decision } from './decision.ts'
import { lifeOf, LONGEST_LIFE } from './receipt-settings.ts'

/**
 * A receipt contains the charges of a decision as a short text, which another process can settle.
 *
 * It consists of `sluice2_`, 11 characters of a SHA-256 over the version and the rest, and JSON as UTF-8, both in base64url. With a secret, it begins with
 * `sluice2s_` and 22 characters of an HMAC-SHA-256. The JSON is a list: an id of the decision, the epoch millisecond at which the receipt ends, and for
 * each charge the limiter, the limit as data, the key, the cost, the tick of the charge and the charged units.
 */
const FORMAT = 2
const FORM = /^sluice([1-9]\d{0,3})(s?)_([\w-]+)$/
/** The bytes and characters of a checksum, and of a digest with a secret. */
const CHECKSUM = { bytes: 8, characters: 11 }
const DIGEST = { bytes: 16, characters: 22 }
export const LONGEST_RECEIPT = 16_384
/** The most decisions whose receipts are kept in this process. The oldest are dropped first. */
const MOST_DECISIONS = 10_000
/** The most characters of a key, and of the name of a limiter with a policy. Real ones are shorter. */
const LONGEST_KEY = 256
const LONGEST_NAME = 512
/** 12 bytes in base64url. */
const ID = /^[\w-]{16}$/

/** Milliseconds by which the clock of the process that made a receipt may be ahead. */
const AHEAD = 60_000

/** The parts of a charge that are written, in this order. */
const PARTS = ['limiter', 'limit', 'key', 'cost', 'at', 'charged'] as const

type Noted = Pick<Charge, (typeof PARTS)[number]>

/** The data of a decision that has a receipt. */
export interface Receipt {
  readonly id: string
  /** Milliseconds for which it can be used after the first receipt, and again after each renewal. */
  readonly life: number
  /** The epoch millisecond at which it ends. */
  until: number
}

const known = shared('receipts', () => ({
  receipts: new WeakMap<Decision, Receipt>(),
  decisions: new Map<string, Decision>(),
  /** False until there is a receipt, so that lookups are skipped. */
  isUsed: false,
}))

function remember(receipt: Receipt, decision: Decision): void {
  known.isUsed = true
  known.receipts.set(decision, receipt)
  known.decisions.delete(receipt.id)
  if (known.decisions.size >= MOST_DECISIONS) known.decisions.delete(known.decisions.keys().next().value!)
  known.decisions.set(receipt.id, decision)
}

/** Returns the data of a decision that has a receipt; `undefined` for any other decision. */
export function receiptIn(decision: Decision): Receipt | undefined {
  return known.isUsed ? known.receipts.get(decision) : undefined
}

/** Returns how a store uses a receipt. A renewal passes `keep`, so that the note is kept longer. */
export function useOf(
  { id, until }: Receipt,
  { settles, releases, keep = until }: { settles: boolean; releases: boolean; keep?: number },
): ReceiptUse {
  return { id, until, keep: Math.max(until, keep), settles, releases, isRepeated: false }
}

export function isOver({ until }: Receipt, store: Store): boolean {
  return until <= store.clock.now()
}

/**
 * Returns the receipt of a decision. Charges that were settled or released before the first receipt are not in it. Throws `INVALID_OPTION`,
 * `INVALID_RECEIPT` and `EXPIRED_RECEIPT`.
 */
export function receiptOf<Input>(
  decision: Decision,
  isSettled: boolean,
  sources: readonly ChargeSource<Input>[],
  store: Store,
): string {
  const charges = countedOf(decision).filter(({ policy }) => policy.compiled.slots || !isSettled)
  const receipt = known.receipts.get(decision) ?? newReceipt(charges, sources, store)
  if (isOver(receipt, store)) throw expired(receipt)
  const written = charges.map((each) => PARTS.map((part) => each[part]))
  const body = base64url(new TextEncoder().encode(JSON.stringify([receipt.id, receipt.until, ...written])))
  const [secret] = secretsOf(sources)
  const text = `sluice${FORMAT}${secret === undefined ? '' : 's'}_${digestOf(body, secret)}${body}`
  if (text.length > LONGEST_RECEIPT) {
    throw invalid(
      `it would have ${text.length} characters, and at most ${LONGEST_RECEIPT} are read. Settle the decision itself`,
    )
  }
  remember(receipt, decision)
  return text
}

function newReceipt<Input>(charges: readonly Charge[], sources: readonly ChargeSource<Input>[], store: Store): Receipt {
  const id = base64url(crypto.getRandomValues(new Uint8Array(12)))
  const limits = charges.map(({ limit }) => limit)
  const life = lifeOf(sources, limits)
  return { id, life, until: Math.ceil(store.clock.now()) + life }
}

function secretsOf<Input>(sources: readonly ChargeSource<Input>[]): readonly string[] {
  return sources.flatMap(({ receipts }) => receipts.secrets)
}

/** Returns the charges that another process can settle. A decision without the store, a denial and a peek have charged nothing in the store. */
function countedOf(decision: Decision): readonly Charge[] {
  const charges = chargesOf(decision)
  if (!decision.allowed || decision.degraded !== undefined) return []
  // Slots that were given back are no longer charged.
  return charges.filter(({ allowed, cost, charged }) => allowed && (cost === 0 || charged > 0))
}

/**
 * Returns the decision of a receipt, for a limiter with these sources. It is the decision of this process, or a new one with the same charges. Throws
 * `INVALID_RECEIPT`, `EXPIRED_RECEIPT`, `FOREIGN_RECEIPT`, and `VERSION_MISMATCH` for a receipt of another format.
 */
export function decisionOf<Input>(text: string, sources: readonly ChargeSource<Input>[], store: Store): Decision {
  const { id, until, charges } = read(text, secretsOf(sources))
  const own = sources.find((source) => charges.some(({ limiter }) => source.owns(limiter)))
  if (own === undefined && charges.length > 0) {
    const names = sources.map(({ name }) => shown(name)).join(' or ')
    const message = `receipt: expected a receipt of limiter ${names}, got one of ${shown(charges[0]!.limiter)}`
    throw new SluiceError('FOREIGN_RECEIPT', message)
  }
  const now = store.clock.now()
  if (until <= now) throw expired({ until })
  const limits = charges.map(({ limit }) => limit)
  if (until > now + LONGEST_LIFE + AHEAD) throw invalid('it ends after more than 366 days')
  const before = known.decisions.get(id)
  if (before !== undefined) {
    const receipt = known.receipts.get(before)!
    receipt.until = Math.max(receipt.until, until)
    return before
  }
  const decision = combine(
    charges.map((each) => chargeOf(each, store, own!.home)),
    undefined,
  )
  remember({ id, until, life: lifeOf(sources, limits) }, decision)
  return decision
}

function chargeOf({ limiter, limit, key, cost, at, charged }: Noted, store: Store, home: object): Charge {
  const charge = new Charge(createPolicy(limiter, limit, store, home), copyText(key), cost)
  charge.allowed = true
  charge.markCharged(at, charged)
  return charge
}

function read(text: string, secrets: readonly string[]): { id: string; until: number; charges: Noted[] } {
  const body = checkedBody(text, secrets)
  try {
    const [id, until, ...charges] = JSON.parse(decoded(body)) as readonly unknown[]
    const isRight = typeof id === 'string' && ID.test(id) && isNumber(until) && until >= 0
    if (!isRight) throw new TypeError(`expected an identity and a time, got ${shown(id)} and ${shown(until)}`)
    return { id, until: Math.ceil(until), charges: charges.map(noted) }
  } catch (error) {
    throw invalid(`its content is damaged: ${whyOf(error)}`, error)
  }
}

function checkedBody(text: string, secrets: readonly string[]): string {
  if (text.length > LONGEST_RECEIPT)
    throw invalid(`it has ${text.length} characters, and at most ${LONGEST_RECEIPT} are read`)
  const [, version, mark, rest] = FORM.exec(text) ?? []
  if (version === undefined || rest === undefined)
    throw invalid(`expected a text of limiter.receipt(decision), got ${shown(text)}`)
  if (Number(version) !== FORMAT)
    throw new SluiceError(
      'VERSION_MISMATCH',
      `receipt: expected format ${FORMAT}, got format ${version} of another version of sluice`,
    )
  const isSigned = mark === 's'
  if (isSigned !== secrets.length > 0)
    throw invalid(`it is ${isSigned ? '' : 'not '}signed. Give both limiters the same \`receiptSecret\``)
  const length = (isSigned ? DIGEST : CHECKSUM).characters
  const body = rest.slice(length)
  const given = rest.slice(0, length)
  if ((isSigned ? secrets : [undefined]).some((secret) => isEqualText(given, digestOf(body, secret)))) return body
  throw invalid(`it was cut or changed${isSigned ? ', or signed with another secret' : ''}`)
}

function noted(given: unknown): Noted {
  const [limiter, limit, key, cost, at, charged] = Array.isArray(given) ? (given as readonly unknown[]) : []
  const isRight = isShort(limiter, LONGEST_NAME) && isShort(key, LONGEST_KEY) && isNumber(at) && isNumber(charged)
  if (!isRight || charged < 0) throw new TypeError(`expected a charge, got ${shown(given)}`)
  return { limiter, limit: limitFromData(limit as LimitInput), key, cost: checkedCost(cost), at, charged }
}

function isShort(given: unknown, longest: number): given is string {
  return typeof given === 'string' && given.length <= longest
}

function isNumber(given: unknown): given is number {
  return typeof given === 'number' && Math.abs(given) <= Number.MAX_SAFE_INTEGER
}

function invalid(reason: string, cause?: unknown): SluiceError {
  return new SluiceError('INVALID_RECEIPT', `receipt: ${reason}`, cause === undefined ? undefined : { cause })
}

function expired({ until }: Pick<Receipt, 'until'>): SluiceError {
  return new SluiceError(
    'EXPIRED_RECEIPT',
    `receipt: it ended at ${new Date(until).toISOString()}, so nothing changes. Settle earlier, or increase \`receiptFor\``,
  )
}

/** Returns a checksum, or with a secret a digest that only its owners can make. */
function digestOf(body: string, secret: string | undefined): string {
  const encoder = new TextEncoder()
  if (secret === undefined)
    return base64url(sha256(encoder.encode(`sluice${FORMAT}_${body}`)).subarray(0, CHECKSUM.bytes))
  const whole = hmacSha256(encoder.encode(secret), encoder.encode(`sluice${FORMAT}s_${body}`))
  return base64url(whole.subarray(0, DIGEST.bytes))
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
