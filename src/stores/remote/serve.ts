import { bringAll } from '../../engine/all-algorithms.ts'
import { limit, type LimitInput } from '../../engine/limit.ts'
import { NOT_HELD } from '../../engine/adjust.ts'
import { LONGEST_STORED } from '../../util/bounded-key.ts'
import { shown, SluiceError } from '../../util/errors.ts'
import {
  amount,
  boolean,
  type Fields,
  fields,
  finite,
  invalid,
  list,
  natural,
  text,
  whole,
} from '../../util/messages.ts'
import { isNoted } from '../note.ts'
import {
  assertStore,
  Charge,
  createPolicy,
  type Degraded,
  isDeciding,
  type Operation,
  type Policy,
  type ReceiptUse,
  start,
  type Store,
} from '../store.ts'
import {
  amountOf,
  failureOf,
  MESSAGE_VERSION,
  MOST_CHARGES,
  MOST_OPERATIONS,
  type OperationAnswer,
  type StoreAnswer,
  type Verdict,
} from './message.ts'

/** The most limits of senders that are kept. If there are more, all are dropped, and made again when they are needed. */
const MOST_POLICIES = 10_000
/** The most characters of the name of a limiter. The longest name of a limiter with a policy has fewer. */
const LONGEST_NAME = 512
const RECEIPT_ID = /^[\w-]{16}$/
const KINDS = ['consume', 'peek', 'adjust', 'renew', 'lock', 'forget'] as const

/**
 * Returns a function that does the operations of messages in a store. Another process sends them with `remoteStore`, over any connection. The function
 * checks every message and keeps no state of a sender. It never rejects: an error is part of the answer.
 *
 * An answer has `error` with the code `INVALID_MESSAGE` if the message is invalid, and `VERSION_MISMATCH` for a message of another version. An invalid
 * operation has such an error in its own answer, and the other operations of the message are done. Limits with custom algorithms need `defineAlgorithm`
 * in this process. Otherwise the answer to their operations is `UNKNOWN_ALGORITHM`.
 *
 * Throws `INVALID_OPTION` if `store` is not a store.
 * @example
 * const answer = serveStore(memoryStore())
 * parentPort.on('message', async ({ id, message }) => parentPort.postMessage({ id, answer: await answer(message) }))
 */
export function serveStore(store: Store): (message: unknown) => Promise<StoreAnswer> {
  assertStore('serveStore', store)
  // A sender may use algorithms that this process does not use itself.
  bringAll()
  return answering(store)
}

/** Does the same as `serveStore`. It only knows the algorithms that the program uses. */
export function answering(store: Store): (message: unknown) => Promise<StoreAnswer> {
  const policies = policiesOf(store)
  return async function answerMessage(message) {
    try {
      const operations = new Reader(message, policies).operations()
      const answers = await Promise.all(operations.map((operation) => answerOf(store, operation)))
      return { sluice: MESSAGE_VERSION, now: store.clock.now(), answers }
    } catch (error) {
      return { sluice: MESSAGE_VERSION, ...failureOf(error) }
    }
  }
}

/** An operation that was read, or the error for an invalid one. */
type Read = Operation | SluiceError

function answerOf(store: Store, operation: Read): Promise<OperationAnswer> {
  if (operation instanceof SluiceError) return Promise.resolve(failureOf(operation))
  return new Promise((resolve) => {
    start(store, operation, {
      answered: (by) => resolve(resultOf(operation, by)),
      failed: (error) => resolve(failureOf(error)),
    })
  })
}

function resultOf(operation: Operation, by: Degraded | 'remembered' | undefined): OperationAnswer {
  const how = by === undefined ? {} : { by }
  if (isDeciding(operation)) return { ...how, verdicts: operation.charges.map(verdictOf) }
  return {
    ...how,
    ...(operation.kind === 'renew' && { renewed: operation.renewed }),
    ...(isNoted(operation) && { isRepeated: operation.receipt.isRepeated }),
  }
}

function verdictOf(charge: Charge): Verdict {
  return {
    allowed: charge.allowed,
    remaining: amountOf(charge.remaining),
    retryAfter: amountOf(charge.retryAfter),
    resetAfter: amountOf(charge.resetAfter),
    delay: charge.delay,
    at: charge.at,
    charged: charge.charged,
    lockedFor: charge.lockedFor,
  }
}

type Policies = (limiter: string, input: LimitInput) => Policy

/** Returns a function that makes the policies of messages. It makes equal limits only once, as a limiter does. */
function policiesOf(store: Store): Policies {
  const known = new Map<string, Policy>()
  return function policyFor(limiter, input) {
    const name = JSON.stringify([limiter, input])
    const before = known.get(name)
    if (before !== undefined) return before
    if (known.size >= MOST_POLICIES) known.clear()
    const made = createPolicy(limiter, limit(input), store, known)
    known.set(name, made)
    return made
  }
}

/** Reads a message from an untrusted sender. Throws `INVALID_MESSAGE` or `VERSION_MISMATCH` if the message as a whole is invalid. */
class Reader {
  readonly #policies: readonly (Policy | SluiceError)[]
  readonly #operations: readonly unknown[]
  #charges = 0

  constructor(message: unknown, policies: Policies) {
    const { sluice, policies: given, operations } = fields('the message', message)
    if (sluice !== MESSAGE_VERSION) refuseVersion(sluice)
    this.#operations = list('operations', operations, MOST_OPERATIONS)
    this.#policies = list('policies', given, MOST_CHARGES).map((each, i) =>
      orError(() => policyOf(policies, each, `policies[${i}]`)),
    )
  }

  /** Returns each operation, or its error. An invalid operation does not prevent others. */
  operations(): Read[] {
    return this.#operations.map((each, i) =>
      orError(() => this.#operation(fields(`operations[${i}]`, each), `operations[${i}]`)),
    )
  }

  #operation(given: Fields, path: string): Operation {
    const kind = KINDS.find((each) => each === given['kind'])
    if (kind === undefined) return invalid(`${path}.kind`, KINDS.join(', '), given['kind'])
    const within = given['within'] === undefined ? {} : { within: amount(`${path}.within`, given['within']) }
    if (kind === 'forget') {
      const limiter = text(`${path}.limiter`, given['limiter'], LONGEST_NAME)
      return { kind, limiter, key: text(`${path}.key`, given['key'], LONGEST_STORED), ...within }
    }
    const charges = this.#chargesOf(given, path)
    if (kind === 'consume' || kind === 'peek')
      return { kind, charges, fresh: boolean(`${path}.fresh`, given['fresh']), ...within }
    if (kind === 'lock') {
      const mode = given['mode'] === 'set' || given['mode'] === 'extend' ? given['mode'] : undefined
      if (mode === undefined) return invalid(`${path}.mode`, 'set or extend', given['mode'])
      return { kind, charges, ms: amount(`${path}.ms`, given['ms']), mode, ...within }
    }
    const receipt = receiptIn(given, `${path}.receipt`)
    if (kind === 'renew') return { kind, charges, renewed: charges.map(() => NOT_HELD), receipt, ...within }
    const units = list(`${path}.units`, given['units'], charges.length).map((each, i) =>
      finite(`${path}.units[${i}]`, each),
    )
    if (units.length !== charges.length) return invalid(`${path}.units`, 'one number for each charge', units.length)
    return { kind, charges, units, receipt, ...within }
  }

  #chargesOf(given: Fields, path: string): Charge[] {
    return list(`${path}.charges`, given['charges'], MOST_CHARGES).map((each, i) => {
      if (++this.#charges > MOST_CHARGES) invalid('operations', `at most ${MOST_CHARGES} charges`, this.#charges)
      return this.#charge(fields(`${path}.charges[${i}]`, each), `${path}.charges[${i}]`)
    })
  }

  #charge({ policy, key, cost, at = 0, charged = 0 }: Fields, path: string): Charge {
    const made = this.#policies[whole(`${path}.policy`, policy)]
    if (made === undefined) return invalid(`${path}.policy`, 'the number of a policy', policy)
    if (made instanceof SluiceError) throw made
    const charge = new Charge(made, text(`${path}.key`, key, LONGEST_STORED), natural(`${path}.cost`, cost))
    charge.markCharged(natural(`${path}.at`, at), amount(`${path}.charged`, charged))
    // Only a penalty has charged nothing.
    charge.allowed = charge.charged > 0
    return charge
  }
}

function policyOf(policies: Policies, given: unknown, path: string): Policy {
  const { limiter, limit: input } = fields(path, given)
  const name = text(`${path}.limiter`, limiter, LONGEST_NAME)
  fields(`${path}.limit`, input)
  return policies(name, input as LimitInput)
}

/** Returns the result of `read`. If it throws a `SluiceError`, returns this error. */
function orError<Value>(read: () => Value): Value | SluiceError {
  try {
    return read()
  } catch (error) {
    if (error instanceof SluiceError) return error
    throw error
  }
}

function receiptIn(given: Fields, path: string): ReceiptUse | undefined {
  if (given['receipt'] === undefined) return undefined
  const { id, until, keep, settles, releases } = fields(path, given['receipt'])
  if (typeof id !== 'string' || !RECEIPT_ID.test(id)) return invalid(`${path}.id`, '16 characters of base64url', id)
  return {
    id,
    until: amount(`${path}.until`, until),
    keep: amount(`${path}.keep`, keep),
    settles: boolean(`${path}.settles`, settles),
    releases: boolean(`${path}.releases`, releases),
    isRepeated: false,
  }
}

function refuseVersion(given: unknown): never {
  throw new SluiceError(
    'VERSION_MISMATCH',
    `A message for a store has version ${shown(given)}, and this process reads ${MESSAGE_VERSION}. Update sluice in both processes.`,
  )
}
