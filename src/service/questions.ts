import { clientAddress } from '../http/keys/address.ts'
import type { Key } from '../limiter/keyers.ts'
import type { RulesInput } from '../limiter/rule-source.ts'
import { SluiceError } from '../util/errors.ts'
import { type Fields, fields, invalid, list, natural, text } from '../util/messages.ts'

/** The most bytes of a body. */
export const MOST_BYTES = 65_536

/** A question about a key, for a limiter. */
export interface KeyQuestion {
  readonly limiter: string
  readonly key: Key | readonly Key[]
  readonly cost: number | undefined
}

/** Headers by their names in lower case. */
export type HeadersByName = Readonly<Record<string, string | readonly string[] | undefined>>

/** Reads a body as JSON. Throws `INVALID_MESSAGE`. */
export function parsedBody(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) as unknown
  } catch {
    throw new SluiceError('INVALID_MESSAGE', 'the body: expected JSON in UTF-8')
  }
}

/** Reads `{ input }` from a body: a request, for rules. Throws `INVALID_MESSAGE`. */
export function rulesInput(message: unknown): RulesInput {
  const { input } = known('the body', message, ['input'])
  const given = known('input', input, ['ip', 'method', 'path', 'headers', 'attributes'])
  return {
    ip: address('input.ip', given['ip']),
    method: word('input.method', given['method']),
    path: word('input.path', given['path']),
    headers: headersIn(given['headers'] ?? {}),
    attributes: attributesIn(given['attributes'] ?? {}),
  }
}

/** Reads `{ limiter, key, cost }` from a body. Throws `INVALID_MESSAGE`. */
export function keyQuestion(message: unknown, limiters: readonly string[]): KeyQuestion {
  const { limiter, key, cost } = known('the body', message, ['limiter', 'key', 'cost'])
  const name = limiters.find((each) => each === limiter)
  if (name === undefined) return invalid('limiter', limiters.join(' or '), limiter)
  return { limiter: name, key: keyIn(key), cost: cost === undefined ? undefined : natural('cost', cost) }
}

/**
 * Reads the request about which a proxy asks, for rules. At `/check`, the path and the method are in headers (nginx). Below `/check`, they are
 * the path and the method of the request itself (Envoy). Then these headers are not read, because the client may have written them.
 * Throws `INVALID_MESSAGE`.
 * @param below the path after `/check`, with the query
 */
export function proxyInput(method: string, below: string, headers: HeadersByName, addressHeader: string): RulesInput {
  const isHere = !below.startsWith('/')
  const inHeader = (name: string): string => word(`the header ${name}`, headers[name])
  return {
    ip: address(`the header ${addressHeader}`, headers[addressHeader]),
    method: isHere ? inHeader('x-original-method') : method,
    path: isHere ? inHeader('x-original-uri') : below,
    headers,
  }
}

/** Reads the status of a denial from the query of `/check`. Throws `INVALID_MESSAGE`. */
export function denyStatus(below: string): number | undefined {
  if (!below.startsWith('?')) return undefined
  const given = known('the query', Object.fromEntries(new URLSearchParams(below)), ['deny'])['deny']
  if (given === undefined) return undefined
  return typeof given === 'string' && /^[45]\d\d$/.test(given)
    ? Number(given)
    : invalid('deny', 'a status from 400 to 599', given)
}

/** Returns the own properties of an object. Refuses unknown names, because a misspelled name could leave clients unlimited. */
function known(path: string, given: unknown, names: readonly string[]): Fields {
  const found = fields(path, given)
  for (const name of Object.keys(found)) if (!names.includes(name)) invalid(path, `only ${names.join(', ')}`, name)
  return found
}

function word(path: string, given: unknown): string {
  const found = text(path, given, MOST_BYTES)
  return found === '' ? invalid(path, 'a text that is not empty', found) : found
}

function address(path: string, given: unknown): string {
  const found = word(path, given)
  return clientAddress(found) === undefined ? invalid(path, 'the address of a client', found) : found
}

function headersIn(given: unknown): HeadersByName {
  const headers = Object.create(null) as Record<string, string | readonly string[]>
  for (const [name, value] of Object.entries(fields('input.headers', given))) {
    headers[name] = Array.isArray(value)
      ? value.map((each) => text('input.headers', each, MOST_BYTES))
      : text('input.headers', value, MOST_BYTES)
  }
  return headers
}

function attributesIn(given: unknown): Fields {
  const attributes = fields('input.attributes', given)
  for (const value of Object.values(attributes)) {
    const isValue = typeof value === 'string' || typeof value === 'boolean' || value === null || Number.isFinite(value)
    if (!isValue) invalid('input.attributes', 'texts, numbers, true and false', value)
  }
  return attributes
}

/** Reads a key. A list is a key with several parts: see `keyers`. */
function keyIn(given: unknown): Key | readonly Key[] {
  if (!Array.isArray(given)) return keyPart(given)
  return given.length === 0
    ? invalid('key', 'a key, or a list of its parts', given)
    : list('key', given, MOST_PARTS).map(keyPart)
}

const MOST_PARTS = 16

function keyPart(given: unknown): Key {
  return typeof given === 'number' && Number.isFinite(given) ? given : word('key', given)
}
