import { madeOnce } from '../util/copies.ts'
import { shown } from '../util/errors.ts'
import { compileRules, type ReadOptions } from './compile.ts'
import type { CompiledRules } from './dimensions.ts'
import {
  DEEPEST,
  inFile,
  invalidRules,
  mistakesIn,
  type ParsedText,
  partsOf,
  type PathPart,
  problemsOf,
  refusal,
  type RulesProblem,
} from './document.ts'

export type RulesFormat = 'json' | 'yaml'

/**
 * The largest text that is parsed, in bytes. YAML takes much longer to parse than JSON, and each of the two takes less than 100 ms for any text of this
 * size.
 */
export const LARGEST: Readonly<Record<RulesFormat, number>> = { json: 2 ** 20, yaml: 2 ** 17 }

/** Returns the format of a file by its name; `undefined` if the name does not end in `.json`, `.yaml` or `.yml`. */
export function formatOf(path: string): RulesFormat | undefined {
  const [, ending] = /\.(json|ya?ml)$/i.exec(path) ?? []
  if (ending === undefined) return undefined
  return ending.toLowerCase() === 'json' ? 'json' : 'yaml'
}

export function formatOfText(text: string): RulesFormat {
  return /^\uFEFF?\s*\{/.test(text) ? 'json' : 'yaml'
}

/** Parses a text in bounded time. Loads the parser of YAML only for YAML, and throws `MISSING_PACKAGE` if it is not installed. */
export async function parseText(text: string, format: RulesFormat): Promise<ParsedText> {
  if (Buffer.byteLength(text) > LARGEST[format]) return { problems: tooLarge(format) }
  if (format === 'json') return parseJson(text)
  const { parseYaml } = await import('./yaml.ts')
  return parseYaml(text)
}

export interface RulesText {
  /** The name of its file, if it has one. */
  readonly file?: string
  readonly text: string
  readonly format: RulesFormat
}

/** A parsed text, and its compiled document. */
export interface CompiledText {
  readonly value: unknown
  readonly compiled: CompiledRules
  /** Adds the file and the lines to problems with values of the document. */
  readonly located: (problems: readonly RulesProblem[]) => readonly RulesProblem[]
}

/** Parses and compiles a text. Throws `INVALID_RULES` with all mistakes, their lines and their file as `cause`. */
export async function compileText({ text, format, file }: RulesText, options: ReadOptions = {}): Promise<CompiledText> {
  const named = (problems: readonly RulesProblem[]): readonly RulesProblem[] =>
    file === undefined ? problems : inFile(file, problems)
  const parsed = await parseText(text, format)
  if ('problems' in parsed) throw invalidRules(named(parsed.problems))
  const { value } = parsed
  const located = (problems: readonly RulesProblem[]): readonly RulesProblem[] => named(parsed.located(problems))
  try {
    return { value, compiled: compileRules(value, options), located }
  } catch (error) {
    const problems = mistakesIn(error)
    throw problems === undefined ? error : invalidRules(located(problems))
  }
}

/** Decodes UTF-8 and keeps every character, so that the text can be written again as it was. */
export function decode(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}

export function tooLarge(format: RulesFormat): readonly RulesProblem[] {
  return refusal(
    format === 'json'
      ? 'expected at most 1 MiB of JSON, got more'
      : 'expected at most 128 KiB of YAML, got more. Write a larger document as JSON, which may have 1 MiB',
  )
}

function parseJson(text: string): ParsedText {
  let value: unknown
  try {
    value = JSON.parse(text.replace(/^\uFEFF/, ''))
  } catch (error) {
    return { problems: refusal(`expected JSON. ${(error as Error).message}`) }
  }
  // JSON.parse takes the last of several values with one name, so that the others would be lost.
  const problems = problemsOf((report) =>
    readJson(text, new PathTree(), (name, line) => report('', `second ${shown(name)}`, { line })),
  )
  return problems.length > 0 ? { problems } : { value, located: (mistakes) => locatedInJson(text, mistakes) }
}

/** The paths of mistakes as a tree, and the lines of the values that were found. */
class PathTree {
  line: number | undefined
  readonly children = new Map<PathPart, PathTree>()
}

function locatedInJson(text: string, problems: readonly RulesProblem[]): readonly RulesProblem[] {
  const root = new PathTree()
  root.line = 1
  const ways = problems.map(({ path }) => {
    const way = [root]
    for (const part of partsOf(path)) way.push(madeOnce(way.at(-1)!.children, part, () => new PathTree()))
    return way
  })
  readJson(text, root)
  return problems.map((each, i) => ({ ...each, line: ways[i]!.findLast(({ line }) => line !== undefined)!.line! }))
}

/** An open object or list, and its part of the tree, if there is one. */
interface Container {
  readonly tree: PathTree | undefined
  /** The place of the current value; -1 in an object. */
  place: number
  /** The names of an object. */
  readonly names?: Set<string> | undefined
}

/** Reads a valid text of JSON once, and writes the lines of values into a tree. Calls `again` with each name that its object already has. */
function readJson(text: string, root: PathTree, again?: (name: string, line: number) => void): void {
  const containers: Container[] = []
  let [line, tree, isName] = [1, root as PathTree | undefined, false]
  for (let i = 0; i < text.length; i++) {
    const character = text[i]!
    const container = containers.at(-1)
    if (character === '\n') line++
    else if (character === '}' || character === ']') containers.pop()
    else if (character === ',') {
      isName = container!.place === -1
      if (!isName) tree = container!.tree?.children.get(++container!.place)
    } else if (!' \t\r:'.includes(character)) {
      const end = character === '"' ? endOfString(text, i) : i
      if (isName) {
        const name = JSON.parse(text.slice(i, end + 1)) as string
        const { names, tree: object } = container!
        if (names?.has(name)) again!(name, line)
        names?.add(name)
        tree = object?.children.get(name)
      }
      if (tree !== undefined) tree.line ??= line
      isName = character === '{'
      // Names in deeper objects are not compared.
      const isCompared = again !== undefined && containers.length < DEEPEST
      if (character === '{') containers.push({ tree, place: -1, names: isCompared ? new Set() : undefined })
      if (character === '[') {
        containers.push({ tree, place: 0 })
        tree = tree?.children.get(0)
      }
      i = end
    }
  }
}

function endOfString(text: string, start: number): number {
  for (let i = start + 1; ; i++) {
    if (text[i] === '\\') i++
    else if (text[i] === '"') return i
  }
}
