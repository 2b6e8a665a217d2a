import { combine, type Decision } from '../../limiter/decision.ts'
import { Charge, type LimitStatus } from '../../stores/store.ts'
import { warn } from '../../util/warn.ts'
import { exposeHeaders } from './cors.ts'
import { type FieldOptions, standardOptions } from './options.ts'
import { clashBetween, fieldNames, fieldWriter, type Headers, mergeDecisions } from './write-headers.ts'
import type { FieldWriter } from './types.ts'
import type { GateOptions } from '../options.ts'
import type { StandardOptions } from './standard.ts'
import type { Surface } from '../adapter.ts'

/**
 * Keeps a decision for the framework's users and, where there still is a response to write to, tells the client; `earlier` is
 * the one that was made for the request before.
 */
export type Teller<Request, Response> = (
  decision: Decision,
  earlier: Decision | undefined,
  request: Request,
  response: Response | undefined,
) => void

/** How a gate tells of its decisions. */
interface Voice {
  readonly headers: Headers
  readonly options: FieldOptions
  readonly words: StandardOptions
  /** Tells of limits of several gates, each in the words of its own. */
  writeAll?: FieldWriter
}

/** What the client has been told by the time of a decision, and by which gates, where that is not just the decision's. */
interface Told {
  readonly decision: Decision
  readonly voices: readonly Voice[]
}

const toldBy = new WeakMap<Decision, Told>()
const NOTHING: Decision = combine([], undefined)

/** How most gates tell. Others are noted for each decision, since another gate may have to tell of it again. */
const USUAL: Voice = { headers: 'standard', options: {}, words: {} }
const voices = new WeakMap<Decision, Voice>()
const wordsBy = new WeakMap<LimitStatus, StandardOptions>()

/** Makes the teller of a gate. Gates that a request passes one after another tell of all their limits in one field. */
export function teller<Request, Response>(
  options: GateOptions<never, never>,
  surface: Pick<Surface<Request, Response, never, never>, 'field' | 'set' | 'keep'>,
): Teller<Request, Response> {
  const voice = voiceOf(options)
  const { headers } = voice
  const write = fieldWriter(headers, options, voice.words)
  const exposed = ['Retry-After', ...fieldNames(headers, options)]
  const silent = headers === false
  const timed = [headers].flat().includes('github')
  // One function for all requests: fields are written at once, so that no other response can come between.
  let written: Response
  const set = (name: string, value: string): void => surface.set(written, name, value)
  const compare = comparison(voice)

  function expose(response: Response): void {
    const existing = surface.field(response, 'access-control-expose-headers') || undefined
    const cors = existing ?? surface.field(response, 'access-control-allow-origin')
    if (cors === undefined || cors === '') return
    surface.set(response, 'Access-Control-Expose-Headers', exposeHeaders(String(existing ?? ''), exposed))
  }

  /** Of all that the gates before have told of, too. */
  function retold(decision: Decision, earlier: Decision): Told {
    const before = toldBefore(earlier)
    compare(before.voices)
    const all = silent ? before.decision : mergeDecisions(before.decision, decision)
    const told = { decision: all, voices: before.voices.includes(voice) ? before.voices : [...before.voices, voice] }
    toldBy.set(decision, told)
    for (const each of [earlier, decision]) lend(each)
    return told
  }

  function tellAll(decision: Decision, earlier: Decision, response: Response | undefined): void {
    const told = retold(decision, earlier)
    if (response === undefined) return
    expose(response)
    if (silent) return
    written = response
    const now = timeOf(decision)
    // Of a denial in all styles: what the gates before have told of was none.
    const others = decision.allowed ? [] : told.voices.filter((each) => each !== voice && each.headers !== false)
    for (const each of [...others, voice]) allWriter(each)(told.decision, now, set)
  }

  return function tell(decision, earlier, request, response) {
    surface.keep(request, decision)
    if (voice !== USUAL) voices.set(decision, voice)
    if (earlier !== undefined) return tellAll(decision, earlier, response)
    if (response === undefined) return
    expose(response)
    if (silent) return
    written = response
    write(decision, timed ? timeOf(decision) : 0, set)
  }
}

function toldBefore(earlier: Decision): Told {
  const known = toldBy.get(earlier)
  if (known !== undefined) return known
  const voice = voices.get(earlier) ?? USUAL
  return { decision: voice.headers === false ? NOTHING : earlier, voices: [voice] }
}

function allWriter(voice: Voice): FieldWriter {
  const { headers, options } = voice
  return (voice.writeAll ??= fieldWriter(headers, options, (status) => wordsBy.get(status) ?? USUAL.words))
}

function voiceOf(options: GateOptions<never, never>): Voice {
  const { headers = 'standard' } = options
  const words = standardOptions(options)
  return headers === 'standard' && Object.keys(words).length === 0 ? USUAL : { headers, options, words }
}

/** Keeps the words of a decision's gate for each of its limits. */
function lend(decision: Decision): void {
  const voice = voices.get(decision)
  if (voice !== undefined) for (const status of decision.limits) wordsBy.set(status, voice.words)
}

/** Warns, once each, when this gate and one before it tell one field in two ways. */
function comparison(voice: Voice): (before: readonly Voice[]) => void {
  const compared = new WeakSet([voice])
  return function compare(before) {
    for (const other of before) {
      if (compared.has(other)) continue
      compared.add(other)
      const clash = clashBetween(other, voice)
      if (clash !== undefined)
        warn('SLUICE_STYLES_CLASH', `Two limiters on one request tell ${clash}. Give both the same \`headers\`.`)
    }
  }
}

/** Epoch milliseconds by the clock of the store that has decided, where it was given one; else the time of day. */
function timeOf({ limits: [first] }: Decision): number {
  const clock = first instanceof Charge ? first.policy.store.clock : undefined
  return (clock ?? Date).now()
}
