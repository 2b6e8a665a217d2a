import { knownOptions, milliseconds, refuse, wholeNumber } from '../util/validate.ts'

/** A `block` that grows, as a limit keeps it. Durations are in milliseconds. */
export interface GrowingBlock {
  /** Denials before each lock-out. */
  readonly after: number
  /** The length of the first lock-out. */
  readonly for: number
  /** How many times longer each further lock-out is. */
  readonly factor: number
  /** The longest lock-out. */
  readonly upTo: number
}

/** How lock-outs grow, in microseconds. */
export interface Growth {
  /** Denials before each lock-out. */
  readonly after: number
  /** How many times longer each further lock-out is. */
  readonly factor: number
  /** The longest lock-out. */
  readonly upTo: number
  /** For how long denials count, from the last of them or from the end of its lock-out on. */
  readonly memory: number
}

/** Lock-outs do not grow any more after this many, so that their length is found in bounded time. */
export const MOST_STEPS = 1000

const OPTIONS = ['after', 'for', 'factor', 'upTo']
const DAY = 86_400_000
/** 100 years in milliseconds. Microseconds since the epoch stay exact beyond it. */
export const LONGEST_LOCK: number = 36_525 * DAY

/** Returns the option `block` of a limit as data: milliseconds, or an object if it grows. Throws `INVALID_OPTION`. */
export function checkedBlock(given: unknown): number | GrowingBlock {
  if (typeof given !== 'object' || given === null) return milliseconds('block', given)
  knownOptions('block', given, OPTIONS)
  const { after = 1, for: first, factor = 1, upTo } = given as Readonly<Record<string, unknown>>
  const length = lockTime('block.for', first)
  if (typeof factor !== 'number' || !(factor >= 1 && factor <= 1000))
    refuse('block.factor', 'a number from 1 to 1000', factor)
  const longest = upTo === undefined ? (factor === 1 ? length : Math.max(length, DAY)) : lockTime('block.upTo', upTo)
  if (longest < length) refuse('block.upTo', `at least \`for\`, ${length} ms`, upTo)
  const block = { after: wholeNumber('block.after', after), for: length, factor, upTo: longest }
  return block.after === 1 && factor === 1 ? length : Object.freeze(block)
}

function lockTime(option: string, given: unknown): number {
  const ms = milliseconds(option, given)
  return ms <= LONGEST_LOCK ? ms : refuse(option, "at most '36525d', 100 years", given)
}

/** Returns the first lock-out in microseconds, and how it grows. */
export function compiledBlock(
  given: number | GrowingBlock | undefined,
  window: number,
): { readonly block: number; readonly growth: Growth | undefined } {
  if (typeof given !== 'object') return { block: (given ?? 0) * 1000, growth: undefined }
  const { after, factor, upTo } = given
  const growth = { after, factor, upTo: upTo * 1000, memory: Math.max(upTo, window) * 1000 }
  return { block: given.for * 1000, growth }
}

/**
 * Returns the microseconds of the lock-out that the latest of so many denials begins; 0 if it begins none. Stores use it.
 * @param block the first lock-out in microseconds
 * @param denials how many denials count, with the latest one
 * @example lockLength(1e6, { after: 2, factor: 3, upTo: 5e6, memory: 5e6 }, 4) // 3000000
 */
export function lockLength(block: number, { after, factor, upTo }: Growth, denials: number): number {
  if (denials % after !== 0) return 0
  let length = block
  const steps = Math.min(denials / after, MOST_STEPS)
  for (let i = 1; i < steps && length < upTo; i++) length *= factor
  return Math.floor(Math.min(length, upTo))
}

/** The twin of `lockLength`. */
export const luaLockLength: string = `
local function lockLength(block, growth, denials)
  if denials % growth.after ~= 0 then return 0 end
  local length, step, steps = block, 1, min(denials / growth.after, ${MOST_STEPS})
  while step < steps and length < growth.upTo do
    length, step = length * growth.factor, step + 1
  end
  return floor(min(length, growth.upTo))
end
`
