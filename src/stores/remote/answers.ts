import { SluiceError, whyOf } from '../../util/errors.ts'
import { amount, boolean, type Fields, invalid, list } from '../../util/messages.ts'
import { isNoted } from '../note.ts'
import { type Charge, type Degraded, isDeciding, type Operation } from '../store.ts'
import { errorOf, MESSAGE_VERSION, type MessageFailure } from './message.ts'

const BY: ReadonlySet<unknown> = new Set([undefined, 'open', 'closed', 'local', 'remembered'])

/** Reads a reply, which may be incomplete or come from another version. Throws the error in it. */
export function answersIn(
  given: unknown,
  count: number,
): { readonly now: number; readonly answers: readonly unknown[] } {
  return read(given, ({ sluice, now, answers }) => {
    if (sluice !== MESSAGE_VERSION) invalid('sluice', String(MESSAGE_VERSION), sluice)
    return { now: amount('now', now), answers: listOf('answers', answers, count) }
  })
}

/** Reads an answer, and writes it into its operation. Returns what has decided instead of the store. Throws the error in the answer. */
export function adopt(operation: Operation, given: unknown): Degraded | 'remembered' | undefined {
  return read(given, ({ by, verdicts, renewed, isRepeated }) => {
    if (!BY.has(by)) invalid('by', 'open, closed, local or remembered', by)
    if (isDeciding(operation)) {
      const { charges } = operation
      listOf('verdicts', verdicts, charges.length).forEach((each, i) => adoptVerdict(charges[i]!, objectIn(each)))
    } else if (operation.kind === 'renew') {
      operation.renewed.splice(0, Infinity, ...listOf('renewed', renewed, operation.charges.length).map(renewedIn))
    }
    if (isNoted(operation)) operation.receipt.isRepeated = isRepeated === true
    return by as Degraded | 'remembered' | undefined
  })
}

/** Calls a function with the parts of what another process has sent. Throws the error that was sent, and `STORE_FAILED` for parts of another form. */
function read<Result>(given: unknown, work: (parts: Fields) => Result): Result {
  const { error } = Object(given) as Partial<MessageFailure>
  if (typeof error?.code === 'string' && typeof error.message === 'string') throw errorOf({ error })
  try {
    return work(objectIn(given))
  } catch (cause) {
    throw new SluiceError('STORE_FAILED', `The other place sent no answer: ${whyOf(cause)}`, { cause })
  }
}

function objectIn(given: unknown): Fields {
  return typeof given === 'object' && given !== null ? (given as Fields) : invalid('the answer', 'an object', given)
}

function listOf(path: string, given: unknown, count: number): readonly unknown[] {
  const all = list(path, given, count)
  return all.length === count ? all : invalid(path, `a list of ${count}`, given)
}

function renewedIn(given: unknown): { at: number; units: number } {
  const { at, units } = objectIn(given)
  return { at: amount('at', at), units: amount('units', units) }
}

function adoptVerdict(charge: Charge, verdict: Fields): void {
  const endless = (name: string): number => (verdict[name] === 'Infinity' ? Infinity : amount(name, verdict[name]))
  charge.allowed = boolean('allowed', verdict['allowed'])
  charge.remaining = endless('remaining')
  charge.retryAfter = endless('retryAfter')
  charge.resetAfter = endless('resetAfter')
  charge.delay = amount('delay', verdict['delay'])
  charge.markCharged(amount('at', verdict['at']), amount('charged', verdict['charged']))
  charge.markLocked(amount('lockedFor', verdict['lockedFor']))
}
