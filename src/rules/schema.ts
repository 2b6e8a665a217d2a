import type { JsonSchema } from './shape.ts'
import { documentOf, policyShape } from './shapes.ts'

/**
 * Returns the JSON Schema of rules documents, for editors. It is made from the same shapes as the checks.
 * @example writeFileSync('rules.schema.json', JSON.stringify(rulesSchema()))
 */
export function rulesSchema(): JsonSchema {
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'Rules of sluice',
    ...documentOf(policyShape).schema,
  }
}
