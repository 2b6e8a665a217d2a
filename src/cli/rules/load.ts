import { promises } from 'node:fs'
import { checkRules } from '../../rules/compile.ts'
import type { RulesDocument, RulesProblem } from '../../rules/document.ts'
import { inFile, invalidRules } from '../../rules/problems.ts'
import { pullRules } from '../../rules/redis/push.ts'
import { decode, formatOf, LARGEST, parseText, type RulesFormat } from '../../rules/text/text.ts'
import { shown, SluiceError } from '../../util/errors.ts'
import { withRedis } from '../connect.ts'

/** Where a command finds documents in Redis. */
export interface Place {
  readonly name: string
  readonly prefix: string
  readonly client: string | undefined
}

/** A text of rules, from a file or from Redis. */
export interface LoadedText {
  /** The name of the file. */
  readonly file?: string
  readonly text: string
  readonly format: RulesFormat
}

/** Reads a text from a file, or from Redis if it is given as a URL. */
export async function loadText(from: string, place: Place): Promise<LoadedText> {
  if (!isRedisUrl(from)) return loadFile(from)
  const { name, prefix } = place
  const found = await withRedis(from, place.client, (_, client) => pullRules(client, { name, prefix }))
  if (found !== undefined) return found
  throw noRules(name)
}

export function isRedisUrl(text: string): boolean {
  return /^(redis|valkey)s?:/i.test(text)
}

export function noRules(name: string): SluiceError {
  return new SluiceError('RULES_UNREACHABLE', `Redis has no rules named ${shown(name)}`)
}

async function loadFile(path: string): Promise<LoadedText> {
  const format = formatOf(path)
  if (format === undefined)
    throw new SluiceError('INVALID_OPTION', `expected a file .json, .yaml or .yml, or a URL, got ${shown(path)}`)
  const file = await promises.stat(path)
  if (file.size > LARGEST[format]) return { text: ' '.repeat(LARGEST[format] + 1), format, file: path }
  const text = decode(await promises.readFile(path))
  if (text === undefined) throw new SluiceError('INVALID_RULES', `expected a text in UTF-8: ${path}`)
  return { text, format, file: path }
}

/** Returns the document of a text, or all of its mistakes with their file and lines. */
export async function documentOf({ text, format, file }: LoadedText): Promise<RulesDocument | readonly RulesProblem[]> {
  const parsed = await parseText(text, format)
  const problems = 'problems' in parsed ? parsed.problems : parsed.located(checkRules(parsed.value))
  if (problems.length > 0) return file === undefined ? problems : inFile(file, problems)
  return (parsed as { readonly value: RulesDocument }).value
}

/** Returns a document that is right. Throws `INVALID_RULES` with all mistakes otherwise. */
export async function loadDocument(from: string, place: Place): Promise<RulesDocument> {
  const found = await documentOf(await loadText(from, place))
  if (isProblems(found)) throw invalidRules(found)
  return found
}

export function isProblems(found: RulesDocument | readonly RulesProblem[]): found is readonly RulesProblem[] {
  return Array.isArray(found)
}
