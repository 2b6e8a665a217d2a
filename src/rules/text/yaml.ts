import { type Document, isAlias, isMap, isScalar, isSeq, Lexer, LineCounter, parseDocument, Parser, visit } from 'yaml'
import { shown } from '../../util/errors.ts'
import type { RulesProblem } from '../document.ts'
import { type ParsedText, problem } from './text.ts'

/** The deepest nesting. Documents of rules need less than twenty levels. */
const DEEPEST = 64
/** The parser searches the document for each alias. */
const MOST_ALIASES = 1000
/** Values of a document after every alias is replaced by its value. */
const MOST_VALUES = 1_000_000
const MOST_PROBLEMS = 100

/** Parses YAML 1.2. Refuses what would take long or grow large before it does. */
export function parseYaml(text: string): ParsedText {
  const excess = excessOf(text)
  if (excess !== undefined) return problem(excess)
  try {
    const lines = new LineCounter()
    const document = composed(text, lines)
    const problems = [...syntaxProblems(document), ...duplicates(document, lines)]
    if (problems.length > 0) return { problems: problems.slice(0, MOST_PROBLEMS) }
    // Aliases become references to one object, so that nothing grows here.
    const value: unknown = document.toJS({ maxAliasCount: -1 })
    if (sizeOf(value, new Map()) > MOST_VALUES) return problem(`expected at most ${MOST_VALUES} values, got more`)
    return { value }
  } catch (error) {
    return problem(`expected YAML. ${(error as Error).message}`)
  }
}

/** Composes a document. Duplicate keys are found in linear time by `duplicates`. */
export function composed(text: string, lineCounter: LineCounter): Document.Parsed {
  return parseDocument(text, { lineCounter, uniqueKeys: false })
}

/**
 * Returns why a text is not composed, by its tokens. Composing is recursive: on deep texts it would exhaust the stack, and Node
 * ends the process if that happens inside of a regular expression.
 */
export function excessOf(text: string): string | undefined {
  const parser = new Parser()
  let aliases = 0
  for (const token of new Lexer().lex(text)) {
    if (token.startsWith('*')) aliases++
    if (aliases > MOST_ALIASES) return `expected at most ${MOST_ALIASES} aliases, got more`
    // A generator runs only while it is read.
    for (const _ of parser.next(token));
    if (parser.stack.length > DEEPEST) return `expected at most ${DEEPEST} levels, got more`
  }
  return undefined
}

function syntaxProblems({ errors, warnings }: Document.Parsed): RulesProblem[] {
  return [...errors, ...warnings].slice(0, MOST_PROBLEMS).map(({ message, linePos }) => {
    const [start] = linePos ?? []
    const text = message.split(/ at line \d+|:?\n/)[0]!
    return { path: '', message: start === undefined ? text : `line ${start.line}, column ${start.col}: ${text}` }
  })
}

function duplicates(document: Document.Parsed, lines: LineCounter): RulesProblem[] {
  const problems: RulesProblem[] = []
  visit(document, {
    Map(_, map) {
      const names = new Set<string>()
      for (const { key } of map.items) {
        const name = String(isScalar(key) ? key.value : key)
        const { line, col } = lines.linePos((isScalar(key) && key.range?.[0]) || 0)
        if (names.has(name)) problems.push({ path: '', message: `line ${line}, column ${col}: second ${shown(name)}` })
        names.add(name)
      }
      return problems.length >= MOST_PROBLEMS ? visit.BREAK : undefined
    },
  })
  return problems
}

/** Counts values as if every alias was a copy. `Infinity` for a value that contains itself. */
function sizeOf(value: unknown, known: Map<object, number>): number {
  if (typeof value !== 'object' || value === null) return 1
  const counted = known.get(value)
  if (counted !== undefined) return counted
  known.set(value, Infinity)
  let size = 1
  for (const each of Object.values(value)) size += sizeOf(each, known)
  known.set(value, size)
  return size
}

/** Returns the line of a value, or of the nearest value that contains it. */
export function lineAt(document: Document.Parsed, lines: LineCounter, path: readonly (string | number)[]): number {
  let node: unknown = document.contents
  let line = 1
  for (const part of path) {
    if (isAlias(node)) node = node.resolve(document)
    const pair = isMap(node) ? node.items.find(({ key }) => isScalar(key) && String(key.value) === part) : undefined
    const found: unknown = isSeq(node) ? node.items[part as number] : (pair?.key ?? undefined)
    const range = (found as { range?: readonly number[] } | undefined)?.range
    if (found === undefined || range === undefined) return line
    line = lines.linePos(range[0]!).line
    node = isSeq(node) ? found : pair!.value
  }
  return line
}
