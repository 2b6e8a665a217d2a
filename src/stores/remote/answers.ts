import { shown, SluiceError } from '../../util/errors.ts'
import { isNoted } from '../note.ts'
import { type Charge, isDeciding, type Operation } from '../store.ts'
import { errorOf, MESSAGE_VERSION, type MessageFailure, type OperationAnswer, type Verdict } from './message.ts'

type Answers = { readonly now: number; readonly answers: readonly unknown[] }

/** Checks a reply, which may be incomplete or come from another version. */
export function checkedAnswers(given: unknown, count: number): Answers {
  const { sluice, error, now, answers } = (given ?? {}) as Record<string, unknown>
  if (isFailure({ error })) throw errorOf({ error } as MessageFailure)
  if (sluice === MESSAGE_VERSION && isNumber(now) && Array.isArray(answers) && answers.length === count)
    return { now, answers }
  throw new SluiceError('STORE_FAILED', `The other place sent ${shown(given)} in place of ${count} answers`)
}

function isFailure(given: unknown): given is MessageFailure {
  const { error } = (given ?? {}) as { readonly error?: { readonly code?: unknown; readonly message?: unknown } }
  return typeof error?.code === 'string' && typeof error.message === 'string'
}

/** Returns the answer to an operation. Throws if it is not complete. */
export function checkedAnswer(operation: Operation, given: unknown): OperationAnswer {
  if (isFailure(given)) return given
  const { by, verdicts, renewed, isRepeated } = (given ?? {}) as Record<string, unknown>
  const isComplete =
    (by === undefined || BY.has(by)) &&
    (!isDeciding(operation) || isListOf(verdicts, operation.charges.length, isVerdict)) &&
    (operation.kind !== 'renew' || isListOf(renewed, operation.charges.length, isRenewed)) &&
    (isRepeated === undefined || typeof isRepeated === 'boolean')
  if (isComplete && typeof given === 'object' && given !== null) return given as OperationAnswer
  throw new SluiceError('STORE_FAILED', `The other place sent ${shown(given)} in place of an answer`)
}

const BY: ReadonlySet<unknown> = new Set(['open', 'closed', 'local', 'remembered'])

function isListOf(given: unknown, count: number, isRight: (each: Record<string, unknown>) => boolean): boolean {
  if (!Array.isArray(given) || given.length !== count) return false
  return given.every(
    (each: unknown) => typeof each === 'object' && each !== null && isRight(each as Record<string, unknown>),
  )
}

/** The numbers of a verdict that may be infinite, and the others. */
const AMOUNTS = ['remaining', 'retryAfter', 'resetAfter']
const NUMBERS = ['delay', 'at', 'charged', 'lockedFor']

function isVerdict(given: Record<string, unknown>): boolean {
  const isAmount = (name: string): boolean => given[name] === 'Infinity' || isNumber(given[name])
  return (
    typeof given['allowed'] === 'boolean' && AMOUNTS.every(isAmount) && NUMBERS.every((name) => isNumber(given[name]))
  )
}

function isRenewed({ at, units }: Record<string, unknown>): boolean {
  return isNumber(at) && isNumber(units)
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= Number.MAX_SAFE_INTEGER
}

/** Writes an answer into an operation. */
export function adopt(operation: Operation, answer: Exclude<OperationAnswer, MessageFailure>): void {
  const { verdicts, renewed, isRepeated } = answer
  if (isDeciding(operation)) operation.charges.forEach((charge, i) => adoptVerdict(charge, verdicts![i]!))
  else if (operation.kind === 'renew') renewed!.forEach((each, i) => (operation.renewed[i] = each))
  if (isNoted(operation)) operation.receipt.isRepeated = isRepeated === true
}

function adoptVerdict(charge: Charge, verdict: Verdict): void {
  charge.allowed = verdict.allowed
  charge.remaining = Number(verdict.remaining)
  charge.retryAfter = Number(verdict.retryAfter)
  charge.resetAfter = Number(verdict.resetAfter)
  charge.delay = verdict.delay
  charge.markCharged(verdict.at, verdict.charged)
  charge.markLocked(verdict.lockedFor)
}
