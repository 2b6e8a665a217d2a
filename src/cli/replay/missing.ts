import type { RulesDocument } from '../../rules/document.ts'
import { attributeIn } from '../../rules/keys.ts'
import type { LoggedRequest } from '../logs/request.ts'

/** Watches which headers and attributes of a document a log never has. Policies that need them do not apply. */
export class MissingFacts {
  readonly #missing: Set<string>

  constructor(document: RulesDocument) {
    this.#missing = new Set(document.policies.flatMap(namesIn))
  }

  see({ headers, fields }: LoggedRequest): void {
    for (const name of this.#missing) {
      const attribute = attributeIn(name)
      const found =
        attribute === undefined
          ? headers?.[name.slice('header:'.length)] !== undefined
          : fields !== undefined && Object.hasOwn(fields, attribute)
      if (found) this.#missing.delete(name)
    }
  }

  get notes(): string[] {
    if (this.#missing.size === 0) return []
    return [`the rules use ${[...this.#missing].join(', ')}, which no request of the log has`]
  }
}

/** The headers and attributes of a policy, as a key names them. */
function namesIn({ match = {}, key = [], cost }: RulesDocument['policies'][number]): string[] {
  const headers = Object.keys(match.header ?? {}).map((name) => `header:${name}`)
  const attributes = [...Object.keys(match.attributes ?? {}), ...(typeof cost === 'string' ? [cost] : [])]
  return [...headers, ...attributes.map((name) => `attribute:${name}`), ...[key].flat()]
    .filter((name) => name.includes(':'))
    .map((name) => (name.startsWith('header:') ? name.toLowerCase() : name))
}
