import { refuse } from '../../util/validate.ts'
import type { HeaderNames } from './names.ts'
import { partitioner } from './partition-key.ts'
import type { StandardOptions } from './standard.ts'

/** What the fields tell beyond the limits themselves, and under which names. */
export interface FieldOptions {
  /**
   * Names of your own for the fields of `'legacy'` and `'github'`, such as those that clients of yours read already.
   * @example rateLimit({ keyer, limits, headers: 'legacy', headerNames: { limit: 'X-Quota', remaining: 'X-Quota-Left' } })
   */
  readonly headerNames?: HeaderNames
  /** The quota unit, of all limits or by the name of each. Default `'requests'`. Told by the newest draft alone. */
  readonly unit?: string | Readonly<Record<string, string>>
  /** Tell partitions apart, without telling keys. Default: no. Told by the newest draft alone. */
  readonly partitionKey?: { readonly secret: string }
}

/** Checks what the newest draft is to tell beyond quota and window. Throws `INVALID_OPTION`, `UNKNOWN_OPTION`. */
export function standardOptions({ unit, partitionKey }: FieldOptions): StandardOptions {
  if (unit !== undefined) for (const each of unitsIn(unit)) checkUnit(each)
  return {
    ...(unit !== undefined && {
      unit: (name: string) => (typeof unit === 'string' ? unit : Object.hasOwn(unit, name) ? unit[name] : undefined),
    }),
    ...(partitionKey !== undefined && { partition: partitioner(partitionKey) }),
  }
}

function unitsIn(unit: unknown): readonly unknown[] {
  return typeof unit === 'object' && unit !== null && !Array.isArray(unit) ? Object.values(unit) : [unit]
}

function checkUnit(unit: unknown): void {
  if (typeof unit !== 'string' || !/^[\x20-\x7e]+$/.test(unit)) refuse('unit', 'printable ASCII', unit)
}
