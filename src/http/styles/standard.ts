import { serializeBareItem, serializeItem } from 'structured-headers'
import type { LimitStatus } from '../../store.ts'
import type { FieldWriter, SetField } from '../field-writer.ts'
import { available, reset } from '../figures.ts'
import { follow, policies, type Wording } from '../policies.ts'
import type { Terms } from '../terms.ts'

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
export function standard(options: StandardOptions = {}): FieldWriter {
  const wording: Wording = { item: (terms) => policyItem(terms, options.unit?.(terms.limit.name)), head: itemHead }
  return options.partition === undefined ? plain(wording) : partitioned(wording, options.partition)
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

/** The policies too differ from key to key here, so they are put together for each decision. */
function partitioned(wording: Wording, partition: (key: string) => string): FieldWriter {
  const none = policies()
  return function writePartitioned({ allowed, limits }, _now, set) {
    let list = ''
    let state = ''
    for (const status of limits) {
      const { told, head, terms, text } = follow(none, status.limit, wording)
      if (!told) continue
      const part = `;pk=${partition(status.key)}`
      list = joined(list, text + part)
      if (allowed || !status.allowed) state = joined(state, head + standing(status, terms!) + part)
    }
    tell(list, state, set)
  }
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
