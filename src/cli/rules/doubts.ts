import type { CompiledPolicy, CompiledRules } from '../../rules/dimensions.ts'
import type { RulesProblem } from '../../rules/document.ts'
import { allAllowed, NO_OTHERWISE } from '../../rules/rules.ts'
import { join } from '../../rules/shape.ts'
import { shown } from '../../util/errors.ts'

/** The values of an attribute with more values, such as a customer number, are not compared: they are not words. */
const MOST_VALUES = 1000
/** The shortest and the longest value that is compared. Shorter values may differ by one letter on purpose. */
const SHORTEST = 3
const LONGEST = 32

/** Returns possible mistakes in a valid document. */
export function doubtsOf(rules: CompiledRules): readonly RulesProblem[] {
  const rest = rules.leavesRest ? [{ path: '', message: NO_OTHERWISE }] : []
  const { allowsAll } = rules
  const all = allowsAll === undefined ? [] : [{ path: '', message: allAllowed(allowsAll) }]
  return [...rest, ...all, ...[...valuesByAttribute(rules)].flatMap(([name, values]) => misspelt(name, values))]
}

/** The policies for each value of an attribute, in the order of the document. */
type Values = ReadonlyMap<string, readonly CompiledPolicy[]>

function valuesByAttribute({ policies }: CompiledRules): ReadonlyMap<string, Values> {
  const attributes = new Map<string, Map<string, CompiledPolicy[]>>()
  for (const policy of policies) {
    for (const [name, given] of Object.entries(policy.rule.match?.attributes ?? {})) {
      const values = attributes.get(name) ?? new Map<string, CompiledPolicy[]>()
      attributes.set(name, values)
      for (const value of new Set([given].flat())) {
        if (typeof value === 'string') values.set(value, [...(values.get(value) ?? []), policy])
      }
    }
  }
  return attributes
}

/** Reports values of one policy that differ by one letter from a value of other policies. If each of the two values has only one policy, it reports the later value. */
function misspelt(attribute: string, values: Values): RulesProblem[] {
  if (values.size > MOST_VALUES) return []
  const byRest = new Map<string, string[]>()
  for (const value of values.keys())
    for (const rest of restsOf(value)) byRest.set(rest, [...(byRest.get(rest) ?? []), value])
  return [...values].flatMap(([value, [policy, ...more]]) => {
    if (more.length > 0) return []
    const alike = restsOf(value).flatMap((rest) => byRest.get(rest)!)
    const near = alike.find((each) => each !== value && isBefore(values.get(each)!, policy!))
    if (near === undefined) return []
    const path = join(`policies[${policy!.index}].match.attributes`, attribute)
    const message = `no other policy has ${shown(value)}, and policies[${values.get(near)![0]!.index}] has ${shown(near)}. Is it misspelt?`
    return [{ path, message }]
  })
}

/** Returns true if several other policies have a value, or one policy before this one. */
function isBefore(owners: readonly CompiledPolicy[], { index }: CompiledPolicy): boolean {
  const others = owners.filter((each) => each.index !== index)
  return others.length > 1 || (others.length === 1 && others[0]!.index < index)
}

/**
 * Returns a value in lower case, and this text without each one of its letters. Two values have one of these texts in common if a letter is
 * missing, added, replaced or moved, or if they differ in letter case. Values that differ in a digit, such as `v1` and `v2`, have none in common.
 */
function restsOf(value: string): string[] {
  const text = value.toLowerCase()
  if (text.length < SHORTEST || text.length > LONGEST) return []
  const rests = Array.from(text, (letter, i) => (/\p{L}/u.test(letter) ? text.slice(0, i) + text.slice(i + 1) : text))
  return [...new Set([text, ...rests])]
}
