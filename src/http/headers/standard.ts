import { serializeBareItem, serializeItem } from 'structured-headers'
import type { Limit } from '../../limits/limit.ts'
import type { LimitStatus } from '../../stores/store.ts'
import type { FieldWriter, SetField } from './types.ts'
import { available, reset } from './figures.ts'
import { follow, policies, type Policies, type Wording } from './policy-list.ts'
import type { Terms } from './values.ts'

/** What the newest draft can tell beyond quota and window. */
export interface StandardOptions {
  /** The quota unit of a limit; requests unless told. */
  readonly unit?: (name: string) => string | undefined
  /** The partition of a key, as a byte sequence. */
  readonly partition?: (key: string) => string
}

/**
 * `RateLimit-Policy` and `RateLimit` as in drafts 8 to 11: lists with an item for each limit; on a denial `RateLimit` has only
 * the violated ones.
 * @see https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
 */
export function standard(words: StandardOptions | ((status: LimitStatus) => StandardOptions) = {}): FieldWriter {
  if (typeof words === 'function') return worded(words)
  return words.partition === undefined ? plain(wordingOf(words)) : worded(() => words)
}

function plain(wording: Wording): FieldWriter {
  const none = policies()
  return function writeStandard({ allowed, limits }, _now, set) {
    let list = none
    let state = ''
    for (let i = 0; i < limits.length; i++) {
      const status = limits[i]!
      list = follow(list, status.limit, wording)
      if (list.told && (allowed || !status.allowed)) state = joined(state, list.head + standing(status, list.terms!))
    }
    tell(list.text, state, set)
  }
}

/** The policies too differ from key to key here, or from gate to gate, so they are put together for each decision. */
function worded(wordsOf: (status: LimitStatus) => StandardOptions): FieldWriter {
  return function writeWorded({ allowed, limits }, _now, set) {
    const items: string[] = []
    let state = ''
    for (const status of limits) {
      const words = wordsOf(status)
      const { told, head, terms, text } = follow(...beginning(words, status.limit))
      if (!told) continue
      const part = words.partition === undefined ? '' : `;pk=${words.partition(status.key)}`
      if (!items.includes(text + part)) items.push(text + part)
      if (allowed || !status.allowed) state = joined(state, head + standing(status, terms!) + part)
    }
    tell(items.join(', '), state, set)
  }
}

const beginnings = new WeakMap<StandardOptions, readonly [none: Policies, wording: Wording]>()

/** A list that a limit begins, in these words. */
function beginning(words: StandardOptions, limit: Limit): [none: Policies, limit: Limit, wording: Wording] {
  const known = beginnings.get(words) ?? [policies(), wordingOf(words)]
  beginnings.set(words, known)
  return [known[0], limit, known[1]]
}

function wordingOf({ unit }: StandardOptions): Wording {
  return { item: (terms) => policyItem(terms, unit?.(terms.limit.name)), head: itemHead }
}

function policyItem({ limit, quota, window }: Terms, unit: string | undefined): string {
  const parameters = new Map<string, number | string>([['q', quota]])
  if (unit !== undefined && unit !== 'requests') parameters.set('qu', unit)
  return serializeItem(limit.name, parameters.set('w', window))
}

function itemHead({ limit }: Terms): string {
  return `${serializeBareItem(limit.name)};r=`
}

function standing(status: LimitStatus, terms: Terms): string {
  const left = available(status, terms)
  return left + ';t=' + reset(status, terms, left)
}

function joined(list: string, item: string): string {
  return list === '' ? item : list + ', ' + item
}

function tell(list: string, state: string, set: SetField): void {
  if (list !== '') set('RateLimit-Policy', list)
  if (state !== '') set('RateLimit', state)
}
