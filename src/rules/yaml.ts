import type { Alias, CST, Document, LineCounter, Node, Scalar, YAMLMap } from 'yaml'
import type * as Yaml from 'yaml'
import { builtin } from '../util/builtin.ts'
import { shown, SluiceError } from '../util/errors.ts'
import { DEEPEST, type ParsedText, partsOf, type PathPart, problemsOf, refusal } from './document.ts'
import { hasMoreValues } from './shape.ts'

/** The most words, marks and line ends of a text. They are composed in one turn of the event loop, which takes 100 ms at most. */
const MOST_TOKENS = 80_000
/** The most aliases and anchors. The library compares each alias with all anchors and aliases before it. */
const MOST_ALIASES = 500
const MOST_ANCHORS = 500
/** The most values of a document after every alias is replaced by its value. */
const MOST_VALUES = 50_000
/** After this number of syntax errors, the rest of a text is not read. */
const MOST_ERRORS = 100
/** Tokens that are read in one turn of the event loop. They take about 5 ms. */
const TOKENS_IN_TURN = 2000

const { setImmediate: nextTurn } = (builtin('node:timers') ?? globalThis) as Pick<typeof globalThis, 'setImmediate'>

/** The library that parses YAML. A project only needs it for documents in YAML. */
type Library = typeof Yaml

/** Loads the library. Throws `MISSING_PACKAGE` if it is not installed. */
async function yamlLibrary(): Promise<Library> {
  try {
    // The import is in a `try`, so that bundlers only warn if the package is missing.
    return await import('yaml')
  } catch (cause) {
    throw new SluiceError('MISSING_PACKAGE', 'Rules in YAML need the package yaml: npm install yaml', { cause })
  }
}

/** Parses YAML 1.2. Refuses a text before it would take too much time or memory, and lets the event loop run in between. */
export async function parseYaml(text: string): Promise<ParsedText> {
  const library = await yamlLibrary()
  const lines = new library.LineCounter()
  const tokens = await tokensOf(library, text, lines)
  if (typeof tokens === 'string') return { problems: refusal(tokens) }
  const [document, another] = composed(library, tokens, text.length)
  const parts = partsIn(library, document)
  const mistakes = [...syntaxErrors(document, another), ...parts.mistakes].toSorted((one, other) => one.at - other.at)
  const problems = problemsOf((report) => {
    for (const { at, message } of mistakes) {
      const { line, col } = lines.linePos(Math.max(0, at))
      report('', message, { line, column: col })
    }
  })
  if (problems.length > 0) return { problems }
  // Aliases become references to one object, so that nothing grows here.
  const value: unknown = document.toJS({ maxAliasCount: -1 })
  if (hasMoreValues(value, MOST_VALUES))
    return { problems: refusal(`expected at most ${MOST_VALUES} values, got more`) }
  await new Promise((resolve) => nextTurn(resolve))
  const lineOf = (path: string): number => lineAt(library, document, lines, parts.targets, partsOf(path))
  return { value, located: (problems) => problems.map((each) => ({ ...each, line: lineOf(each.path) })) }
}

/**
 * Returns the tokens of a text, or a message that says why the text is refused. Composing is recursive: a deep text would exhaust the stack, and Node ends the
 * process if this happens in a regular expression.
 */
async function tokensOf(
  { Lexer, Parser }: Library,
  text: string,
  lines: LineCounter,
): Promise<readonly CST.Token[] | string> {
  const parser = new Parser(lines.addNewLine)
  lines.addNewLine(0)
  const tokens: CST.Token[] = []
  let [count, aliases, anchors, errors] = [0, 0, 0, 0]
  for (const source of new Lexer().lex(text)) {
    if (++count > MOST_TOKENS) return `expected at most ${MOST_TOKENS} words and marks, got more`
    if (source.startsWith('*') && ++aliases > MOST_ALIASES) return `expected at most ${MOST_ALIASES} aliases, got more`
    if (source.startsWith('&') && ++anchors > MOST_ANCHORS) return `expected at most ${MOST_ANCHORS} anchors, got more`
    for (const token of parser.next(source)) {
      tokens.push(token)
      if (token.type === 'error') errors++
    }
    if (parser.stack.length > DEEPEST) return `expected at most ${DEEPEST} levels, got more`
    // Later errors are not listed.
    if (errors > MOST_ERRORS) break
    if (count % TOKENS_IN_TURN === 0) await new Promise((resolve) => nextTurn(resolve))
  }
  return [...tokens, ...parser.end()]
}

/**
 * `partsIn` finds duplicate keys. A text that asks for YAML 1.1, or for a tag, would have merge keys: the library throws at wrong ones, and a few of them
 * can take forever.
 */
const COMPOSED = { uniqueKeys: false, schema: 'core', resolveKnownTags: false } as const

/**
 * Composes the first document of a text. Also returns a second one, if there is one. The library makes an error object for each mistake. Most of the
 * time for it would be the stack, which is not needed.
 */
function composed(
  { Composer }: Library,
  tokens: readonly CST.Token[],
  length: number,
): [Document.Parsed, Document.Parsed | undefined] {
  const before = Error.stackTraceLimit
  Error.stackTraceLimit = 0
  try {
    const documents = new Composer(COMPOSED).compose(tokens, true, length)
    const first = documents.next().value!
    return [first, documents.next().value ?? undefined]
  } finally {
    Error.stackTraceLimit = before
  }
}

interface Mistake {
  readonly at: number
  readonly message: string
}

function syntaxErrors({ errors, warnings }: Document.Parsed, another: Document.Parsed | undefined): Mistake[] {
  const mistakes = [...errors, ...warnings].map(({ pos, message }) => ({ at: pos[0], message }))
  if (another !== undefined) mistakes.push({ at: another.range[0], message: 'expected one document, got several' })
  return mistakes
}

/** The values of aliases. */
type Targets = ReadonlyMap<Alias, Node>

/** The parts of a document whose values are compared as texts. */
const COMPARED: ReadonlySet<unknown> = new Set(['attributes', 'key'])

/** Finds duplicate names, names that are not texts, values that need quotes, and the value of each alias, in one pass. */
function partsIn(
  library: Library,
  document: Document.Parsed,
): { readonly mistakes: readonly Mistake[]; readonly targets: Targets } {
  const mistakes: Mistake[] = []
  const anchors = new Map<string, Node>()
  const targets = new Map<Alias, Node>()
  library.visit(document, {
    Value(role, node, path) {
      if (node.anchor !== undefined) anchors.set(node.anchor, node)
      if (library.isMap(node)) mistakes.push(...mistakesInNames(library, node))
      if (library.isScalar(node) && role !== 'key' && needsQuotes(library, node, path))
        mistakes.push({
          at: positionOf(node),
          message: `expected quotes around ${node.source}: without them, YAML reads ${String(node.value)}`,
        })
    },
    Alias(_, node) {
      const target = anchors.get(node.source)
      if (target === undefined)
        mistakes.push({ at: positionOf(node), message: `no anchor ${shown(node.source)} before` })
      else targets.set(node, target)
    },
  })
  return { mistakes, targets }
}

/** Returns true for a number or a boolean that is compared as a text, and that YAML reads as another text than the one in the document. */
function needsQuotes({ isPair }: Library, { value, source }: Scalar, path: readonly unknown[]): boolean {
  if ((typeof value !== 'number' && typeof value !== 'boolean') || String(value) === source) return false
  return path.some((each) => isPair(each) && COMPARED.has((each.key as Scalar | null)?.value))
}

function* mistakesInNames({ isScalar }: Library, { items }: YAMLMap): Generator<Mistake> {
  const names = new Set<string>()
  for (const { key } of items) {
    const name = isScalar(key) ? String(key.value) : undefined
    if (name === undefined) yield { at: positionOf(key), message: 'expected a text as a name' }
    else if (names.has(name)) yield { at: positionOf(key), message: `second ${shown(name)}` }
    else names.add(name)
  }
}

function positionOf(node: unknown): number {
  return (node as { range?: readonly number[] } | null)?.range?.[0] ?? 0
}

/** Returns the line of a value, or of the nearest value that contains it. */
function lineAt(
  { isAlias, isMap, isScalar, isSeq }: Library,
  document: Document.Parsed,
  lines: LineCounter,
  targets: Targets,
  path: readonly PathPart[],
): number {
  let node: unknown = document.contents
  let line = 1
  for (const part of path) {
    if (isAlias(node)) node = targets.get(node)
    const pair = isMap(node) ? node.items.find(({ key }) => isScalar(key) && String(key.value) === part) : undefined
    const found: unknown = isSeq(node) ? node.items[part as number] : pair?.key
    if (found === undefined) return line
    line = lines.linePos(positionOf(found)).line
    node = isSeq(node) ? found : pair!.value
  }
  return line
}
