// Random invalid inputs for everything that reads requests or writes responses, without sockets. SLUICE_FUZZ_INPUTS sets their
// number, SLUICE_FUZZ_SEED repeats a run that failed.
import { validateHeaderName } from 'node:http'
import { isIP } from 'node:net'
import { parseList } from 'structured-headers'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { builtIn } from '../../../src/algorithms/index.ts'
import type { Decision } from '../../../src/limiter/decision.ts'
import { addressKeyer, clientAddress } from '../../../src/http/keys/address.ts'
import { headerConfig, headerWriter } from '../../../src/http/headers/styles.ts'
import { mergeRetryAfter, retryAfter } from '../../../src/http/headers/retry-after.ts'
import { withNames } from '../../../src/http/headers/cors.ts'
import type { HeaderStyles } from '../../../src/http/headers/types.ts'
import { createRequestLimiter } from '../../../src/http/request-limiter.ts'
import { denial, rawResponse } from '../../../src/http/denial.ts'
import type { HttpAdapter } from '../../../src/http/adapter.ts'
import { keyers } from '../../../src/limiter/keyers.ts'
import { type Limit, limit } from '../../../src/engine/limit.ts'
import { createLimiter } from '../../../src/limiter/limiter.ts'
import { fixedWindow, gcra } from '../../../src/engine/factories.ts'
import { memoryStore } from '../../../src/stores/memory/index.ts'
import { virtualClock } from '../../../src/testing.ts'
import { SluiceError } from '../../../src/util/errors.ts'
import { type Dice, diceOf, FIELD, spellingsIn, spellingsOf } from './inputs.ts'

const INPUTS = Number(process.env['SLUICE_FUZZ_INPUTS'] ?? 100_000)
const SEED = Number(process.env['SLUICE_FUZZ_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
vi.setConfig({ testTimeout: 60_000 + INPUTS / 10 })

// Each limiter warns once of a request without a key, and there are thousands of limiters.
beforeAll(() => void vi.spyOn(process, 'emitWarning').mockImplementation(() => {}))
afterAll(() => void vi.restoreAllMocks())

let inputs = 0

/** Runs a test with a share of the inputs. A failure names the seed. */
function fuzz(name: string, share: number, salt: number, each: (dice: Dice) => void): void {
  const count = Math.ceil(INPUTS * share)
  inputs += count
  test(name, () => {
    const dice = diceOf(SEED + salt)
    for (let i = 0; i < count; i++) {
      try {
        each(dice)
      } catch (cause) {
        throw new Error(`Input ${i} of SLUICE_FUZZ_SEED=${SEED}: ${String(cause)}`, { cause })
      }
    }
  })
}

/** Like `expect`, but free when the condition is true. */
function must(so: boolean, what: string, given: unknown): void {
  if (!so) expect.unreachable(`${what}: ${JSON.stringify(given)}`)
}

describe('addresses', () => {
  const key = addressKeyer()
  const known = (text: string | undefined): boolean => text === undefined || isIP(text.replace(/\/56$/, '')) !== 0

  fuzz('of any text are an address or undefined', 0.18, 1, (dice) => {
    const text = dice.oneIn(2) ? dice.text() : dice.oneIn(2) ? dice.ipv4() + dice.text() : dice.text() + dice.ipv4()
    const [address, under] = [clientAddress(text), key(text)]
    must(known(address) && known(under), 'no address', { text, address, under })
    must((address === undefined) === (under === undefined), 'an address without a key, or a key without one', text)
    must(under === undefined || FIELD.test(under), 'a key that is no plain text', under)
  })

  fuzz('of IPv4 are equal in every notation', 0.1, 2, (dice) => {
    const ipv4 = dice.ipv4()
    const text = spellingsOf(ipv4, dice)
    must(key(text) === ipv4, 'another key than the address', { text, key: key(text) })
    must(clientAddress(text) === ipv4, 'another address', text)
  })

  fuzz('of one IPv6 network are equal in every notation', 0.1, 3, (dice) => {
    const groups = [0x2001 + dice.below(0x1000), ...dice.groups().slice(1)]
    const [text, other] = [spellingsIn(groups, dice), spellingsIn(groups, dice)]
    must(key(text) !== undefined && key(text) === key(other), 'two keys for one network', { text, other })
  })

  fuzz('of a forwarded chain are an address or undefined', 0.02, 4, (dice) => {
    const chain = Array.from({ length: dice.oneIn(500) ? 5000 : dice.below(6) }, () =>
      dice.oneIn(2) ? dice.ipv4() : dice.text(),
    )
    for (const separator of [', ', ',', ' ']) must(known(key(chain.join(separator))), 'no address', chain.length)
  })

  test('of a value that is not a string are undefined', () => {
    for (const given of [undefined, null, 0, NaN, {}, [], ['1.2.3.4'], true, Symbol('ip'), () => '1.2.3.4']) {
      expect(clientAddress(given as never)).toBeUndefined()
      expect(key(given as never)).toBeUndefined()
    }
    expect(key('1'.repeat(2 ** 24))).toBeUndefined()
    expect(key('['.repeat(2 ** 20))).toBeUndefined()
    expect(key(':'.repeat(2 ** 20))).toBeUndefined()
  })
})

const algorithms = builtIn.filter(({ name }) => name !== 'spacing' && name !== 'slidingWindowBuckets')

function limitOf(dice: Dice, name: string): Limit | undefined {
  const algorithm = dice.of(algorithms).name
  const quota = dice.of([1, 2, 10, 1000, 1_000_000, 1 + dice.below(5000)])
  const window = dice.of([1, 20, 999, 1000, 60_000, 3_600_000, 86_400_000, 1 + dice.below(1e9)])
  return limit({
    algorithm,
    quota,
    window,
    name,
    ...(dice.oneIn(10) && { shadow: true }),
    ...(dice.oneIn(10) && { strict: true }),
  })
}

/** Returns the result of a function, or undefined when it throws a SluiceError. */
function attempt<Made>(make: () => Made): Made | undefined {
  try {
    return make()
  } catch (error) {
    must(error instanceof SluiceError, 'another error', String(error))
    return undefined
  }
}

const clock = virtualClock()

/** Returns a decision of a random limiter about a key. */
function decisionOf(dice: Dice, keys: string): Decision | undefined {
  const limits = [dice.printable(), `${dice.printable()}2`]
    .slice(0, 1 + dice.below(2))
    .map((name) => attempt(() => limitOf(dice, name)))
  if (limits.some((limit) => limit === undefined)) return undefined
  const cost = (): number => (dice.oneIn(20) ? 2 ** 52 : dice.below(3))
  const options = { keyer: () => keys, limits: limits as Limit[], cost, store: memoryStore({ clock }) }
  const limiter = attempt(() => createLimiter(options))
  let decision = attempt(() => limiter?.consume(undefined)) as Decision | undefined
  for (let i = dice.below(3); i > 0; i--) {
    clock.advance(dice.of([0, 0.001, 1, 500, 61_000]))
    decision = (attempt(() => limiter?.consume(undefined)) as Decision | undefined) ?? decision
  }
  return decision
}

const STYLES: readonly HeaderStyles[] = [
  'standard',
  'draft-8',
  'draft-7',
  'draft-6',
  'legacy',
  'github',
  ['standard', 'legacy'],
  ['draft-6', 'github'],
  'openai',
  ['anthropic', 'standard'],
]

describe('names, keys and units', () => {
  fuzz('are refused exactly if they are not plain text', 0.08, 5, (dice) => {
    const text = dice.text()
    const plain = /^[\x20-\x7e]+$/.test(text)
    const limit = attempt(() => fixedWindow({ quota: 1, window: 1000, name: text }))
    must(limit === undefined || plain, 'a name that is no plain text', text)
    must(
      attempt(() => headerWriter(headerConfig({ headers: 'standard', unit: text }))) === undefined || plain,
      'a unit that is no plain text',
      text,
    )
    must(
      attempt(() => headerWriter(headerConfig({ headers: 'standard', unit: { [text]: text } }))) === undefined || plain,
      'such a unit',
      text,
    )
  })

  const decided = createLimiter({ keyer: () => 'key', limits: gcra({ quota: 5, window: 1000 }) }).consume(undefined)
  fuzz('of headers are refused, or accepted by Node', 0.03, 14, (dice) => {
    const limit = dice.oneIn(2) ? dice.text() : `X-${dice.printable()}`
    const write = attempt(() => headerWriter(headerConfig({ headers: 'legacy', headerNames: { limit } })))
    if (write === undefined) return
    const headers: string[] = []
    write(decided, 0, (name) => headers.push(name))
    for (const name of headers) validateHeaderName(name)
    must(new Set(headers).size === 3, 'more or fewer headers', { limit, headers })
  })

  fuzz('that are accepted leave headers valid, and can be parsed', 0.1, 6, (dice) => {
    const decision = decisionOf(dice, dice.text())
    if (decision === undefined) return
    const unit = dice.oneIn(2) ? { unit: dice.printable() } : {}
    const partition = dice.oneIn(3) ? { partitionKey: { secret: dice.text() || 'secret' } } : {}
    const style = dice.of(STYLES)
    const headers = new Map<string, string>()
    headerWriter(headerConfig({ headers: style, ...unit, ...partition }))(decision, clock.now(), (name, value) =>
      headers.set(name, value),
    )
    for (const [name, value] of headers) {
      validateHeaderName(name)
      must(FIELD.test(value), 'an invalid header', [name, value])
    }
    headers.delete('x-ratelimit-resource')
    for (const value of headers.values()) {
      // Names and digests may contain anything.
      const numbers = value.replace(/"(?:[^"\\]|\\.)*"|:[\w+/=]*:/g, '')
      must(!/NaN|Infinity|undefined|null|e\+/.test(numbers), 'no number', value)
    }
    if (style !== 'standard' || !headers.has('RateLimit-Policy')) return
    const names = decision.limits.filter(({ limit }) => limit.shadow !== true).map(({ limit }) => limit.name)
    expect(parseList(headers.get('RateLimit-Policy')!).map(([item]) => item)).toEqual(names)
  })

  fuzz('leave the body and the headers of a denial valid', 0.08, 7, (dice) => {
    const decision = decisionOf(dice, dice.text())
    if (decision === undefined) return
    const closed = dice.oneIn(10) ? { ...decision, degraded: 'closed' as const } : decision
    const { status, headers, body } = denial(closed, {
      accept: dice.oneIn(2) ? dice.text() : dice.of(['text/plain', '*/*', 'text/*;q=0']),
      method: 'GET',
    })
    must(status === 429 || status === 503, 'a status', status)
    for (const [name, value] of headers)
      must(/^[\w-]+$/.test(name) && FIELD.test(value), 'an invalid header', [name, value])
    must(/^[\x20-\x7e]+\n?$/.test(body), 'a body that is no ASCII', body)
    if (body.startsWith('{')) JSON.parse(body)
    const [head] = rawResponse({ status, headers, body }).split('\r\n\r\n', 1) as [string]
    must(
      head.split('\r\n').every((line) => FIELD.test(line)),
      'a broken head',
      head,
    )
    must(head.split('\r\n').length === headers.length + 3, 'a line too many', head)
    const seconds = retryAfter(decision)
    must(seconds === undefined || (Number.isInteger(seconds) && seconds >= 1), 'a Retry-After', seconds)
  })
})

describe('a header of the application', () => {
  fuzz('is never shortened, and leaves a valid Retry-After', 0.12, 8, (dice) => {
    const numbers = [
      '0',
      '00',
      '1.5',
      '-3',
      '+9',
      '1e9',
      '0x10',
      '9'.repeat(dice.below(400)),
      'Fri, 20 Nov 2026 22:00:00 GMT',
      `${dice.text()}GMT`,
    ]
    const text = dice.oneIn(2) ? dice.text() : dice.of(numbers)
    const existing = dice.of<unknown>([
      text,
      [text, dice.text()],
      dice.below(1e6),
      undefined,
      null,
      '',
      NaN,
      -1,
      Infinity,
    ])
    const ours = dice.of([undefined, 1, 60, 999_999_999_999_999])
    const merged = mergeRetryAfter(existing, ours, dice.of([0, Date.now(), 8.64e15]))
    const sound =
      merged === undefined
        ? ours === undefined
        : Number.isInteger(merged) && merged >= (ours ?? 1) && merged <= 999_999_999_999_999
    must(sound, 'a Retry-After', { existing, ours, merged })
  })

  fuzz('stays exposed', 0.03, 9, (dice) => {
    const exposed = withNames(dice.printable(), ['RateLimit', 'Retry-After'])
    must(FIELD.test(exposed), 'an invalid header', exposed)
    must(exposed.includes('*') || (/RateLimit/i.test(exposed) && /Retry-After/i.test(exposed)), 'not exposed', exposed)
  })
})

interface Seen {
  readonly method: string | undefined
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly address: string | undefined
  decision?: Decision
}
interface Sent {
  readonly headers: Map<string, string>
  status: number
}

const adapter: HttpAdapter<Seen, Sent, undefined, (response: Sent) => unknown> = {
  getMethod: ({ method }) => method,
  getRequestHeader: ({ headers }, name) => headers[name],
  getHeader: ({ headers }, name) => headers.get(name.toLowerCase()),
  setHeader: ({ headers }, name, value) => void headers.set(name.toLowerCase(), value),
  headersSent: () => false,
  getStatus: ({ status }) => status,
  sendDenial: (response, status) => void (response.status = status),
  onEnd: () => () => {},
  getDecision: ({ decision }) => decision,
  setDecision: (request, decision) => void (request.decision = decision),
  callOnDenied: (onDenied, _request, response) => onDenied(response),
}

describe('a request limiter', () => {
  const QUOTA = 5
  const key = addressKeyer()

  /** Returns a request with random headers, from a given client. */
  function requestOf(dice: Dice, address: string | undefined): Seen {
    const headers: Record<string, string> = {}
    for (const name of ['accept', 'origin', 'x-forwarded-for', 'forwarded', 'x-real-ip', 'ratelimit'])
      if (dice.oneIn(3)) headers[name] = dice.text()
    return {
      method: dice.of(['GET', 'HEAD', 'POST', 'OPTIONS', 'options', '', undefined, dice.text()]),
      headers,
      address,
    }
  }

  function requestLimiterOf(make: (request: Seen) => string | undefined) {
    const limits = fixedWindow({ quota: QUOTA, window: '1h' })
    return createRequestLimiter({ keyer: make, limits, store: memoryStore({ clock }) }, adapter)
  }

  /** Sends many requests of each client in random notations. No client gets more than its quota. */
  function campaign(
    make: (request: Seen) => string | undefined,
    address: (dice: Dice, groups: readonly number[], ipv4: string) => string | undefined,
  ) {
    let requestLimiter = requestLimiterOf(make)
    let [asked, admitted] = [0, 0]
    let groups: readonly number[] = [0x2001]
    let ipv4 = '1.2.3.4'
    return (dice: Dice): void => {
      if (asked++ % 25 === 0) {
        requestLimiter = requestLimiterOf(make)
        admitted = 0
        groups = [0x2001, ...dice.groups().slice(1)]
        ipv4 = dice.ipv4()
      }
      const response: Sent = { headers: new Map(), status: 200 }
      if (requestLimiter.admit(requestOf(dice, address(dice, groups, ipv4)), response, undefined) === true) admitted++
      else must(response.status === 429, 'a denial without an answer', response.status)
      must(admitted <= QUOTA, 'more admitted than the limit', { admitted, ipv4, groups })
      for (const each of response.headers) must(FIELD.test(each[1]), 'an invalid header', each)
    }
  }

  type Campaign = Parameters<typeof campaign>
  const byAddress = ({ address }: Seen): string | undefined => key(address)
  const tenant = keyers(() => 'tenant', byAddress) as Campaign[0]
  const ofIPv4: Campaign[1] = (dice, _groups, ipv4) => spellingsOf(ipv4, dice)
  const ofNone: Campaign[1] = (dice) =>
    dice.of([undefined, '', ' ', 'unknown', 'undefined', '1.2.3', dice.text().replace(/[\d:]/g, '')])

  fuzz('admits no more of one IPv4 client than its limit', 0.05, 10, campaign(byAddress, ofIPv4))
  fuzz(
    'admits no more of one IPv6 network than its limit',
    0.05,
    11,
    campaign(byAddress, (dice, groups) => spellingsIn(groups, dice)),
  )
  fuzz('admits no more of all clients without an address than one limit', 0.03, 12, campaign(byAddress, ofNone))
  fuzz('admits no more of one composite key than its limit', 0.03, 13, campaign(tenant, ofIPv4))
})

test('the shares add up to all inputs', () => expect(inputs).toBeGreaterThanOrEqual(INPUTS))
