import type { RulesDocument } from '../../rules/document.ts'
import type { LoggedRequest } from '../logs/request.ts'

const FACTS = new Set(['ip', 'everyone', 'method', 'path'])
const MATCHED = new Set(['method', 'path', 'header', 'ip'])

/** Watches which headers and attributes of a document a log never has. Policies that need them do not apply. */
export class MissingFacts {
  readonly #missing: Set<string>

  constructor(document: RulesDocument) {
    this.#missing = new Set(document.policies.flatMap(namesIn))
  }

  see({ headers, fields }: LoggedRequest): void {
    for (const name of this.#missing) {
      const header = name.startsWith('header:') ? name.slice('header:'.length) : undefined
      const found =
        header === undefined ? fields !== undefined && Object.hasOwn(fields, name) : headers?.[header] !== undefined
      if (found) this.#missing.delete(name)
    }
  }

  get notes(): string[] {
    if (this.#missing.size === 0) return []
    return [`the rules use ${[...this.#missing].join(', ')}, which no request of the log has`]
  }
}

function namesIn({ match = {}, key = [], cost }: RulesDocument['policies'][number]): string[] {
  const headers = Object.keys(match.header ?? {}).map((name) => `header:${name}`)
  const attributes = Object.keys(match).filter((name) => !MATCHED.has(name))
  const names = [...headers, ...attributes, ...[key].flat(), ...(typeof cost === 'string' ? [cost] : [])]
  return names
    .filter((name) => !FACTS.has(name))
    .map((name) => (name.startsWith('header:') ? name.toLowerCase() : name))
}
