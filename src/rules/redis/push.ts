import { hostname, userInfo } from 'node:os'
import type { RedisClient } from '../../stores/redis/clients.ts'
import { SluiceError } from '../../util/errors.ts'
import { knownOptions, oneOf, refuse, wholeNumber } from '../../util/validate.ts'
import { checkRules } from '../compile.ts'
import type { RulesDocument } from '../document.ts'
import { invalidRules } from '../problems.ts'
import { LARGEST, parseText, type RulesFormat } from '../text/text.ts'
import { type PulledRules, RedisDocument, type RedisPlace, type RulesPush, unreachable } from './stored.ts'

/** Options of `pushRules`. */
export interface PushOptions extends RedisPlace {
  /**
   * The version that this document replaces, or 0 for none. The push is rejected if Redis has another version. Default: any version, so
   * the last push wins.
   */
  readonly version?: number
  /** The format of a text. Default: JSON if it starts with `{`, else YAML. */
  readonly format?: RulesFormat
  /** The person or program that pushes, up to 256 characters. Default: the names of the user and the host, such as `ada@web-1`. */
  readonly writer?: string
}

/**
 * Replaces the document in Redis, as one transaction, and announces it to all processes with `redisRules`. Returns its version. A
 * text is kept as it is, with its comments.
 *
 * Throws `INVALID_RULES` with all mistakes as `cause`; `RULES_CONFLICT` if another `version` is there, with its `RulesPush` as
 * `cause`; `RULES_UNREACHABLE` if Redis did not answer; `INVALID_OPTION`, `UNKNOWN_OPTION`.
 * @example
 * const { text, version } = (await pullRules(client))!
 * await pushRules(client, edited(text), { version })
 */
export async function pushRules(
  client: RedisClient,
  document: string | RulesDocument,
  options: PushOptions = {},
): Promise<RulesPush> {
  knownOptions('pushRules', options, ['name', 'prefix', 'cluster', 'version', 'format', 'writer'])
  const { version: expected, writer = writerHere(), ...place } = options
  if (expected !== undefined) wholeNumber('version', expected, 0)
  if (typeof writer !== 'string' || writer.length > 256) refuse('writer', 'at most 256 characters', writer)
  const text = typeof document === 'string' ? document : JSON.stringify(document, undefined, 2)
  const format = typeof document === 'string' ? formatOfText(document, options.format) : 'json'
  const json = await checkedJson(text, format)
  const stored = new RedisDocument(client, place)
  const { isPushed, push } = await answered(stored.push({ text, format, json, writer }, expected))
  if (!isPushed) throw conflict(expected!, push)
  return push
}

/**
 * Reads the document in Redis as it was pushed; `undefined` if there is none. Throws `RULES_UNREACHABLE` if Redis did not answer,
 * `INVALID_OPTION`, `UNKNOWN_OPTION`.
 * @example (await pullRules(new Redis()))?.text
 */
export async function pullRules(client: RedisClient, options: RedisPlace = {}): Promise<PulledRules | undefined> {
  knownOptions('pullRules', options, ['name', 'prefix', 'cluster'])
  return answered(new RedisDocument(client, options).pull())
}

function formatOfText(text: string, given: RulesFormat | undefined): RulesFormat {
  if (given !== undefined) return oneOf('format', given, ['json', 'yaml'])
  return /^\uFEFF?\s*\{/.test(text) ? 'json' : 'yaml'
}

async function checkedJson(text: string, format: RulesFormat): Promise<string> {
  const parsed = await parseText(text, format)
  if ('problems' in parsed) throw invalidRules(parsed.problems)
  const problems = checkRules(parsed.value)
  if (problems.length > 0) throw invalidRules(parsed.located(problems))
  const json = JSON.stringify(parsed.value)
  // Aliases of YAML are copies in JSON.
  if (Buffer.byteLength(json) > LARGEST.json)
    throw invalidRules([{ path: '', message: 'expected at most 1 MiB of JSON, got more' }])
  return json
}

async function answered<Answer>(answer: Promise<Answer>): Promise<Answer> {
  try {
    return await answer
  } catch (cause) {
    throw unreachable(cause)
  }
}

function conflict(expected: number, push: RulesPush): SluiceError {
  const { version, writer, pushedAt } = push
  const found =
    version === 0
      ? 'there is none. It was deleted'
      : `${writer} pushed version ${version} at ${new Date(pushedAt).toISOString()}. Pull it, and apply the change to it`
  return new SluiceError('RULES_CONFLICT', `The rules to replace are version ${expected}, but ${found}`, {
    cause: push,
  })
}

function writerHere(): string {
  return `${userName()}@${hostname()}`.slice(0, 256)
}

/** A user without an entry in the system's list has no name, such as in a container. */
function userName(): string {
  try {
    return userInfo().username
  } catch {
    return String(process.getuid?.() ?? 'unknown')
  }
}
