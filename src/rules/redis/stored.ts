import { createHash } from 'node:crypto'
import { type RedisClient, scriptClient, type ScriptClient } from '../../stores/redis/clients.ts'
import { isScriptMissing, reasonIn } from '../../stores/redis/failure.ts'
import { PREFIX } from '../../stores/redis/keys.ts'
import { SluiceError } from '../../util/errors.ts'
import { boolean, knownOptions, oneOf, ownOptions, refuse, wholeNumber } from '../../util/validate.ts'
import { compileText, formatOfText, LARGEST, tooLarge } from '../text.ts'
import type { CompiledText, RulesFormat, RulesText } from '../text.ts'
import { hostname, userInfo } from 'node:os'
import script from './stored.lua?raw'
import { invalidRules, type RulesDocument } from '../document.ts'

/** The place of a document in Redis. */
export interface RedisPlace {
  /** The name of the document. Default `'rules'`. */
  readonly name?: string
  /** The prefix of its key. Default `'sluice:'`. */
  readonly prefix?: string
  /** As for `redisStore`. */
  readonly cluster?: boolean
}

export const PLACE: readonly (keyof RedisPlace)[] = ['name', 'prefix', 'cluster']

/** A push: its writer and its time. */
export interface RulesPush {
  /** 1 for the first document of this name, and one more for each further document. */
  readonly version: number
  /** The writer, such as `ada@web-1`. */
  readonly writer: string
  /** The server's time, in epoch milliseconds. */
  readonly pushedAt: number
  /** The version that a rollback has restored. */
  readonly restores?: number
}

/** A document as it was pushed. */
export interface PulledRules extends RulesPush {
  /** The document as it was pushed, with its comments. */
  readonly text: string
  /** The format of the text. */
  readonly format: RulesFormat
}

/** A checked text, and its document in JSON, so that processes need no parser of YAML. */
interface CheckedRules extends RulesText, CompiledText {
  readonly json: string
}

/** A document in the form that processes read. Every push has another identity. */
interface StoredDocument {
  readonly version: number
  readonly identity: string
  /** `undefined` for a document that is too large. */
  readonly json: string | undefined
}

const sha = createHash('sha1').update(script).digest('hex')

/** The document of one name in Redis: one hash, written and read by scripts. */
export class RedisDocument {
  /** The channel on which pushes are announced: the name of the hash. */
  readonly channel: string
  readonly #client: ScriptClient
  readonly #key: string

  constructor(client: RedisClient, place: RedisPlace) {
    const { name = 'rules', prefix = PREFIX, cluster } = ownOptions(place)
    if (typeof name !== 'string' || !/^[\x21-\x7e]{1,128}$/.test(name))
      refuse('name', 'one to 128 printable ASCII characters', name)
    if (typeof prefix !== 'string') refuse('prefix', 'a string', prefix)
    this.#client = scriptClient(client, cluster === undefined ? undefined : boolean('cluster', cluster))
    // No limiter has an empty name, so this key belongs to no limiter.
    this.#key = `${prefix}:rules:${name}`
    this.channel = this.#client.keyPrefix + this.#key
  }

  /**
   * Writes a document and announces it. If `expected` is given and Redis has another version, writes nothing and returns the push of that version.
   */
  async push(
    { format, text, json }: CheckedRules,
    writer: string,
    expected: number | undefined,
    restores: number | undefined,
  ): Promise<{ isPushed: boolean; push: RulesPush }> {
    const reply = await this.#run('push', textOf(expected), writer, format, text, json, textOf(restores))
    const [outcome, version, by, at, restored] = reply as [string, string, string, string, string?]
    return { isPushed: outcome === 'pushed', push: pushOf(version, by, at, restored) }
  }

  /** Reads the document for a process. Returns `'same'` if it has the given identity, and `undefined` if there is none. */
  async read(identity: string): Promise<StoredDocument | 'same' | undefined> {
    const [outcome, version, found, json] = await this.#run('read', identity, String(LARGEST.json))
    if (outcome === 'none') return undefined
    if (outcome === 'same') return 'same'
    return { version: Number(version), identity: found!, json }
  }

  /** Returns the current document and at most `earlier` of those before it, the newest first. Default: all that are kept. */
  async history(earlier?: number): Promise<readonly PulledRules[]> {
    const reply = await this.#run('history', textOf(earlier))
    const count = reply.length / (1 + PARTS)
    return Array.from({ length: count }, (_, i) => {
      const at = i * (1 + PARTS)
      return pulledOf(reply[at]!, reply.slice(at + 1, at + 1 + PARTS))
    })
  }

  async #run(...args: readonly [action: 'push' | 'read' | 'history', ...string[]]): Promise<(string | undefined)[]> {
    const reply = await this.#client.call('evalsha', sha, [this.#key], args).catch((error: unknown) => {
      if (!isScriptMissing(error)) throw error
      return this.#client.call('eval', script, [this.#key], args)
    })
    return (reply as (string | number | null)[]).map((each) => (each === null ? undefined : String(each)))
  }
}

/** The number of parts of a document in Redis: writer, time, format, the restored version, and text. */
const PARTS = 5

function pulledOf(version: string, parts: readonly (string | undefined)[]): PulledRules {
  const [writer = '', pushedAt = '', format, restores, text = ''] = parts
  return { ...pushOf(version, writer, pushedAt, restores), format: format as RulesFormat, text }
}

function pushOf(version: string, writer: string, pushedAt: string, restores = ''): RulesPush {
  const push = { version: Number(version), writer, pushedAt: Number(pushedAt) }
  return restores === '' ? push : { ...push, restores: Number(restores) }
}

function textOf(given: number | undefined): string {
  return given === undefined ? '' : String(given)
}

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
 * Replaces the document in Redis, in one transaction, and announces it to all processes with `rulesFromRedis`. Returns the push with its version. A text is
 * kept as it is, with its comments.
 *
 * Throws `INVALID_RULES` with all mistakes as `cause`; `RULES_CONFLICT` if Redis has another `version`, with its `RulesPush` as
 * `cause`; `RULES_UNREACHABLE` if Redis did not answer or refused; `MISSING_PACKAGE` for YAML without the package `yaml`; `INVALID_OPTION`, `UNKNOWN_OPTION`.
 * @example
 * const { text, version } = (await pullRules(client))!
 * await pushRules(client, edited(text), { version })
 */
export async function pushRules(
  client: RedisClient,
  document: string | RulesDocument,
  options: PushOptions = {},
): Promise<RulesPush> {
  options = knownOptions('pushRules', options, [...PLACE, 'version', 'format', 'writer'])
  const text = typeof document === 'string' ? document : JSON.stringify(document, undefined, 2)
  const format =
    options.format === undefined || typeof document !== 'string'
      ? formatOfText(text)
      : oneOf('format', options.format, ['json', 'yaml'])
  return pushChecked(client, await checkedRules({ text, format }), options)
}

/** Writes a document that was checked. */
export async function pushChecked(
  client: RedisClient,
  checked: CheckedRules,
  { version: expected, writer = writerHere(), format: _format, ...place }: PushOptions,
  restores?: number,
): Promise<RulesPush> {
  if (expected !== undefined) wholeNumber('version', expected, 0)
  if (typeof writer !== 'string' || writer.length > 256) refuse('writer', 'at most 256 characters', writer)
  const stored = new RedisDocument(client, place)
  const { isPushed, push } = await answered(stored.push(checked, writer, expected, restores))
  if (!isPushed) throw conflict(expected!, push)
  return push
}

/**
 * Reads the document in Redis as it was pushed; `undefined` if there is none. Throws `RULES_UNREACHABLE` if Redis did not answer or refused,
 * `INVALID_OPTION`, `UNKNOWN_OPTION`.
 * @example (await pullRules(new Redis()))?.text
 */
export async function pullRules(client: RedisClient, options: RedisPlace = {}): Promise<PulledRules | undefined> {
  const [current] = await answered(new RedisDocument(client, knownOptions('pullRules', options, PLACE)).history(0))
  return current
}

/**
 * Returns the current document in Redis and those before it, the newest first: at most 50, and at most 1 MiB of texts before the current one.
 * Throws `RULES_UNREACHABLE` if Redis did not answer or refused, `INVALID_OPTION`, `UNKNOWN_OPTION`.
 * @example for (const { version, writer, pushedAt } of await rulesHistory(client)) console.log(version, writer, new Date(pushedAt))
 */
export async function rulesHistory(client: RedisClient, options: RedisPlace = {}): Promise<readonly PulledRules[]> {
  return answered(new RedisDocument(client, knownOptions('rulesHistory', options, PLACE)).history())
}

/** Options of `rollbackRules`. */
export interface RollbackOptions extends RedisPlace {
  /**
   * The version whose document applies again. Default: the version before the current one. If the current version is a rollback, it is the version before the
   * restored one. So each further rollback goes back by one more version.
   */
  readonly version?: number
  /** The person or program that rolls back: see `pushRules`. */
  readonly writer?: string
}

/**
 * Pushes the document of an earlier version again, as a new version. Nothing is written if another push happens at the same time.
 *
 * Throws `RULES_NOT_KEPT` if Redis does not have that version, `RULES_CONFLICT` if another version was pushed in the meantime, and the errors of
 * `pushRules`.
 * @example const { version, restores } = await rollbackRules(client)
 */
export async function rollbackRules(client: RedisClient, options: RollbackOptions = {}): Promise<RulesPush> {
  options = knownOptions('rollbackRules', options, [...PLACE, 'version', 'writer'])
  const { version: given, writer, ...place } = options
  if (given !== undefined) wholeNumber('version', given, 1)
  const history = await rulesHistory(client, place)
  const [current] = history
  const wanted = given ?? (current === undefined ? 0 : (current.restores ?? current.version) - 1)
  const earlier = history.find(({ version }) => version === wanted)
  if (current === undefined || earlier === undefined) throw notKept(wanted, history)
  const next = { version: current.version, ...place, ...(writer !== undefined && { writer }) }
  return pushChecked(client, await checkedRules(earlier), next, earlier.version)
}

function notKept(version: number, history: readonly RulesPush[]): SluiceError {
  const versions = history.map((each) => each.version).join(', ')
  const found = versions === '' ? 'Redis has no rules of this name' : `Redis has ${versions}`
  return new SluiceError('RULES_NOT_KEPT', `Version ${version} of the rules is not kept. ${found}`)
}

/** Checks a text before it is pushed. Throws `INVALID_RULES` with all mistakes as `cause`. */
export async function checkedRules(given: RulesText): Promise<CheckedRules> {
  const compiled = await compileText(given)
  const json = JSON.stringify(compiled.value)
  // The JSON can be larger than the text, because aliases of YAML become copies.
  if (Buffer.byteLength(json) > LARGEST.json) throw invalidRules(tooLarge('json'))
  return { ...given, ...compiled, json }
}

/** Throws `RULES_UNREACHABLE` if Redis did not answer or refused. */
async function answered<Answer>(answer: Promise<Answer>): Promise<Answer> {
  try {
    return await answer
  } catch (cause) {
    throw new SluiceError('RULES_UNREACHABLE', `The rules in Redis could not be read or written. ${reasonIn(cause)}`, {
      cause,
    })
  }
}

function conflict(expected: number, push: RulesPush): SluiceError {
  const { version, writer, pushedAt } = push
  const found =
    version === 0
      ? 'there is none. It was deleted'
      : `${writer} pushed version ${version} at ${new Date(pushedAt).toISOString()}. Pull it, and apply the change to it`
  const message = `The rules to replace are version ${expected}, but ${found}`
  return new SluiceError('RULES_CONFLICT', message, { cause: push })
}

function writerHere(): string {
  let user: string
  try {
    user = userInfo().username
  } catch {
    // A user without an entry in the list of the system has no name, such as in a container.
    user = String(process.getuid?.() ?? 'unknown')
  }
  return `${user}@${hostname()}`.slice(0, 256)
}
