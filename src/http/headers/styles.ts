import type { LimitStatus } from '../../stores/store.ts'
import type { FieldWriter } from './types.ts'
import { type HeaderNames, named } from './names.ts'
import { draft6 } from './draft-6.ts'
import { draft7 } from './draft-7.ts'
import { github, GITHUB_NAMES } from './github.ts'
import { legacy, LEGACY_NAMES } from './legacy.ts'
import { standard, type StandardOptions } from './standard.ts'

/** Which header fields tell the client where it stands; `'standard'` is the newest draft. */
export type HeaderStyle = 'standard' | 'draft-8' | 'draft-7' | 'draft-6' | 'legacy' | 'github'

/** What a style is made of. */
export interface Style {
  make(words: StandardOptions | ((status: LimitStatus) => StandardOptions), names: HeaderNames): FieldWriter
  /** The fields it writes, and in whose syntax: two styles may share a field only in the same one. */
  fields(names: HeaderNames): Readonly<Record<string, string>>
}

const DRAFT_6_NAMES = { limit: 'RateLimit-Limit', remaining: 'RateLimit-Remaining', reset: 'RateLimit-Reset' }
const newest: Style = { make: standard, fields: () => ({ RateLimit: 'items', 'RateLimit-Policy': 'items' }) }

/** All of them. */
export const STYLES: Readonly<Record<HeaderStyle, Style>> = {
  standard: newest,
  'draft-8': newest,
  'draft-7': { make: draft7, fields: () => ({ RateLimit: 'dictionary', 'RateLimit-Policy': 'numbers' }) },
  'draft-6': { make: draft6, fields: () => ({ ...inSyntax('seconds', DRAFT_6_NAMES), 'RateLimit-Policy': 'numbers' }) },
  legacy: {
    make: (_words, names) => legacy(named(LEGACY_NAMES, names)),
    fields: (names) => inSyntax('seconds', named(LEGACY_NAMES, names)),
  },
  github: {
    make: (_words, names) => github(named(GITHUB_NAMES, names)),
    fields: (names) => inSyntax('epoch', named(GITHUB_NAMES, names)),
  },
}

/** The styles whose fields nobody has standardised. */
export const NAMEABLE: readonly HeaderStyle[] = ['legacy', 'github']

/** The same part of the same style is the same text; seconds in one field are not the quota in another. */
function inSyntax(syntax: string, names: Readonly<Record<string, string | false>>): Readonly<Record<string, string>> {
  const told = Object.entries(names).filter((entry): entry is [string, string] => entry[1] !== false)
  return Object.fromEntries(told.map(([part, name]) => [name, `${part} in ${syntax}`]))
}
