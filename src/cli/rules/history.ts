import type { CompiledRules } from '../../rules/dimensions.ts'
import type { PulledRules, RulesPush } from '../../rules/redis/stored.ts'
import { compileText } from '../../rules/text.ts'
import { messageOf } from '../../util/errors.ts'
import { inOneLine } from '../print.ts'
import { type Difference, differences, printedDifferences } from './diff.ts'

interface HistoryEntry extends RulesPush {
  /** The differences from the version before. Absent for the oldest version that is kept. */
  readonly differences?: readonly Difference[]
  /** Why there are no differences: a document has mistakes in this version of the package, or cannot be read here. */
  readonly failure?: string
}

const MOST_LINES = 10

/**
 * Returns the changes of each push.
 * @param pushes the newest push first
 */
export async function historyOf(pushes: readonly PulledRules[]): Promise<readonly HistoryEntry[]> {
  const compiled = await Promise.all(pushes.map(compiledOf))
  return pushes.map(({ text: _text, format: _format, ...push }, i) => {
    const [before, after] = [compiled[i + 1], compiled[i]!]
    if (before === undefined) return push
    if (typeof before === 'string' || typeof after === 'string')
      return { ...push, failure: typeof after === 'string' ? after : (before as string) }
    return { ...push, differences: differences(before, after) }
  })
}

async function compiledOf(rules: PulledRules): Promise<CompiledRules | string> {
  return compileText(rules).then(({ compiled }) => compiled, messageOf)
}

export function printedHistory(history: readonly HistoryEntry[]): string {
  return history.map(printedEntry).join('')
}

function printedEntry({ version, writer, pushedAt, restores, differences: found, failure }: HistoryEntry): string {
  const restored = restores === undefined ? '' : `, restores version ${restores}`
  const head = `version ${version}, pushed by ${inOneLine(writer)} at ${new Date(pushedAt).toISOString()}${restored}\n`
  if (failure !== undefined) return `${head}  cannot be compared: ${failure.split('\n').slice(0, 2).join(' ')}\n`
  if (found === undefined) return head
  const lines = printedDifferences(found.slice(0, MOST_LINES)).trimEnd().split('\n')
  const more = found.length > MOST_LINES ? [`and ${found.length - MOST_LINES} more`] : []
  return head + [...lines, ...more].map((line) => `  ${line}\n`).join('')
}
