import { knownAlgorithms } from '../../engine/all-algorithms.ts'
import { type Limit, limit, type LimitInput } from '../../engine/limit.ts'
import { plainFacts } from '../../rules/facts.ts'
import { compileRules } from '../../rules/compile.ts'
import { matchingPolicies } from '../../rules/match.ts'
import { isPathPattern } from '../../rules/paths.ts'
import { recentCache } from '../../http/keys/address.ts'
import { reasonOf, shown, SluiceError } from '../../util/errors.ts'
import { hintOf, nearest } from '../../util/validate.ts'
import type { LoggedRequest } from '../logs/request.ts'

export interface LimitExpression {
  /** The original text. */
  readonly text: string
  readonly limit: Limit
  /** Returns true for the requests that the limit counts. `undefined` if it counts all requests. */
  readonly matches: ((request: LoggedRequest) => boolean) | undefined
}

const COMMON = ['name', 'strict', 'block', 'shadow', 'capCost', 'path', 'method']
const TEXTS = new Set(['name', 'path', 'method'])
const FLAGS = new Set(['strict', 'shadow', 'capCost'])
const EXAMPLE = "such as 'gcra 100/1m burst=20 path=/login'"

/**
 * Reads a limit such as `gcra 100/1m burst=20 path=/login method=POST`: the algorithm, the quota and the window, options, and filters
 * for requests. Throws `INVALID_OPTION`, `UNKNOWN_ALGORITHM` or `UNKNOWN_OPTION`.
 */
export function parseLimit(text: string): LimitExpression {
  const [algorithm = '', rate = '', ...rest] = text.trim().split(/\s+/)
  const { options: own, windowOption, renew } = algorithmNamed(algorithm)
  const known = [...own, ...(windowOption ? [windowOption.name] : []), ...COMMON]
  const isSlots = renew !== undefined
  const slash = rate.indexOf('/')
  if (isSlots && (rate === '' || slash !== -1))
    throw misuse(text, `expected how many requests may run after ${algorithm}, such as 10`)
  if (!isSlots && slash < 1) throw misuse(text, `expected a quota and a window after ${algorithm}, such as 100/1m`)
  const { path, method, ...options } = Object.fromEntries(rest.map((each) => option(each, text, algorithm, known)))
  const numbers = isSlots
    ? { quota: valueOf(rate) }
    : { quota: valueOf(rate.slice(0, slash)), window: rate.slice(slash + 1) }
  const input = { algorithm, ...numbers, ...options }
  return { text: text.trim(), limit: limitFor(text, input as LimitInput), matches: filter(text, path, method) }
}

/** Makes a limit. An error names the text on the command line. */
export function limitFor(text: string, input: LimitInput): Limit {
  try {
    return limit(input)
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error
    throw new SluiceError(error.code, `--limit ${shown(text)}: ${reasonOf(error)}`)
  }
}

function algorithmNamed(name: string): ReturnType<typeof knownAlgorithms>[number] {
  const found = knownAlgorithms().find((each) => each.name === name)
  if (found !== undefined) return found
  const names = knownAlgorithms().map((each) => each.name)
  throw new SluiceError(
    'UNKNOWN_ALGORITHM',
    `--limit: expected ${names.join(', ')}, got ${shown(name)}${hintOf(nearest(name, names))}`,
  )
}

function option(each: string, text: string, algorithm: string, known: readonly string[]): [string, unknown] {
  const equals = each.indexOf('=')
  const name = equals === -1 ? each : each.slice(0, equals)
  if (!known.includes(name)) {
    const names = known.join(', ')
    const message = `--limit ${shown(text)}: ${algorithm} has no option ${shown(name)}; it has ${names}${hintOf(nearest(name, known))}`
    throw new SluiceError('UNKNOWN_OPTION', message)
  }
  if (equals === -1 && FLAGS.has(name)) return [name, true]
  if (equals === -1) throw misuse(text, `expected a value, as in ${name}=…`)
  return [name, TEXTS.has(name) ? each.slice(equals + 1) : valueOf(each.slice(equals + 1))]
}

function valueOf(text: string): unknown {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  return text === 'true' ? true : text === 'false' ? false : text
}

/** Returns a filter for requests. Paths and methods match as in a document of rules. */
function filter(text: string, path: unknown, method: unknown): LimitExpression['matches'] {
  if (path === undefined && method === undefined) return undefined
  const paths = typeof path === 'string' ? path.split(',') : undefined
  const methods = typeof method === 'string' ? method.toUpperCase().split(',') : undefined
  if (paths?.every(isPathPattern) === false) throw misuse(text, 'expected a path such as /login, /users/:id or /api/*')
  if (methods?.every((each) => /^[A-Z-]{1,32}$/.test(each)) === false)
    throw misuse(text, 'expected a method such as POST')
  const match = { ...(paths && { path: paths }), ...(methods && { method: methods }) }
  const rules = compileRules({
    policies: [{ name: 'limit', match, key: 'everyone', limits: [{ quota: 1, window: '1s' }] }],
  })
  const cached = recentCache(1000, (target) => {
    const space = target.indexOf(' ')
    const input = { method: target.slice(0, space), path: target.slice(space + 1) }
    return matchingPolicies(rules, plainFacts(input), 0).length > 0
  })
  return (request) => cached(`${request.method} ${request.path}`)
}

function misuse(text: string, reason: string): SluiceError {
  return new SluiceError('INVALID_OPTION', `--limit ${shown(text)}: ${reason}; ${EXAMPLE}`)
}
