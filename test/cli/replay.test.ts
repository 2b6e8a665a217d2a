import express from 'express'
import fc from 'fast-check'
import { readFileSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus'
import { describe, expect, it } from 'vitest'
import { byIP, rateLimit, type RateLimitOptions } from '../../adapters/express/index.ts'
import { type LogSettings, logSettings, type LogValues } from '../../src/cli/logs/options.ts'
import { readLogs } from '../../src/cli/logs/read.ts'
import { type Replay, replayLimits, replayRules, type Report } from '../../src/cli/replay/replay.ts'
import { compileRules } from '../../src/rules/compile.ts'
import { parseLimit } from '../../src/cli/replay/expression.ts'
import { Tally, Timeline } from '../../src/cli/replay/tally.ts'
import { type Decision, gcra, memoryStore, slidingWindowLog, unlimited } from '../../src/index.ts'
import { createRules } from '../../src/rules/index.ts'
import { commandLine, type Result } from '../support/command-line.ts'
import { ask, serveForTest } from '../support/http.ts'
import { clfLine } from '../support/logs.ts'

const cli = commandLine()

/** Runs `sluice replay` as a shell does. */
function replay(...words: readonly string[]): Promise<Result> {
  return cli.run(['replay', ...words])
}

async function report(...words: readonly string[]): Promise<Report> {
  const { out, error } = await replay(...words, '--json')
  expect(error).toBe('')
  return JSON.parse(out) as Report
}

const START = Date.parse('2026-11-22T11:00:00Z')

/** A request of a generated log. */
interface Sent {
  readonly time: number
  readonly ip: string
  readonly path: string
  readonly method: string
}

/** Returns requests of a few clients with gaps from 0 to 4 seconds. */
function generated(count: number, seed: number, step: number): Sent[] {
  const random = xoroshiro128plus(seed)
  const next = (below: number): number => (random.next() >>> 0) % below
  let time = START
  return Array.from({ length: count }, () => {
    time += next(3) === 0 ? 0 : step * next(4000 / step)
    const path = next(3) === 0 ? '/login' : '/items?page=2'
    const ip = ['192.0.2.1', '192.0.2.2', '2001:db8::1', '2001:db8::2'][next(4)]!
    return { time, ip, path, method: next(2) === 0 ? 'GET' : 'POST' }
  })
}

interface Verdict {
  readonly allowed: boolean
  readonly limits: readonly { limit: string; key: string; allowed: boolean; remaining: number; retryAfter: number }[]
}

/** The parts of a decision that are compared. */
function brief({ allowed, limits: statuses }: Decision): Verdict {
  const limits = statuses.map(({ limit, key, allowed, remaining, retryAfter }) => {
    return { limit: limit.name, key, allowed, remaining, retryAfter }
  })
  return { allowed, limits }
}

/** Sends requests to a server whose clock shows their times. Returns its decisions, which its statuses confirm. */
async function sentOverHttp(sent: readonly Sent[], options: Partial<RateLimitOptions>): Promise<Verdict[]> {
  const seen: Verdict[] = []
  let now = START
  const store = memoryStore({ clock: { now: () => now } })
  const onDecision = (decision: Decision): void => void seen.push(brief(decision))
  const app = express().set('trust proxy', 1)
  app.use(rateLimit({ store, onDecision, ...options } as RateLimitOptions), (_, response) => void response.end())
  const served = await serveForTest(app)
  for (const { time, ip, path, method } of sent) {
    now = time
    const { status } = await ask(served, path, { method, headers: { 'x-forwarded-for': ip } })
    expect(status).toBe(seen.at(-1)!.allowed ? 200 : 429)
  }
  return seen
}

const VALUES: LogValues = { reorder: '10s', 'ipv6-subnet': '56', 'max-keys': '1000' }

/** Replays a log, and returns its decisions. */
async function decisionsOf(
  log: string,
  values: Partial<LogValues>,
  make: (options: LogSettings) => Replay,
): Promise<Verdict[]> {
  const options = logSettings({ ...VALUES, ...values }, true)
  const replay = make(options)
  const seen: Verdict[] = []
  await readLogs([log], options, () => (entry) => {
    seen.push(brief(replay.decide(entry)!))
  })
  return seen
}

const STRICT = [{ algorithm: 'slidingWindowLog', quota: 3, window: '1m' }]
const RULES = {
  policies: [
    { name: 'login', match: { method: 'POST', path: '/login' }, key: 'ip', limits: STRICT },
    { name: 'all', key: 'ip', limits: [{ quota: 10, window: '1m', burst: 5 }] },
  ],
}

describe('replay decides as a server', () => {
  it('with limits on the lines of a server, to the second', async () => {
    const sent = generated(400, 1, 1000)
    cli.file('clf.log', sent.map(({ time, ip, path, method }) => clfLine(time, ip, path, method)).join('\n'))
    const limits = ['gcra 10/1m burst=5 name=all', 'slidingWindowLog 3/1m path=/login method=POST name=login']
    const all = gcra({ quota: 10, window: '1m', burst: 5, name: 'all' })
    const login = slidingWindowLog({ quota: 3, window: '1m', name: 'login' })
    const served = await sentOverHttp(sent, {
      keyer: byIP,
      limits: [all, (request) => (request.path === '/login' && request.method === 'POST' ? login : unlimited)],
    })
    expect(await decisionsOf('clf.log', {}, (options) => replayLimits(limits.map(parseLimit), options))).toEqual(served)
    expect(served.filter(({ allowed }) => !allowed).length).toBeGreaterThan(50)
    expect(served.filter(({ allowed }) => allowed).length).toBeGreaterThan(50)
  })

  it('with rules on JSON lines, to the millisecond', async () => {
    const sent = generated(400, 2, 1)
    const lines = sent.map((each) => JSON.stringify({ ...each, at: new Date(each.time).toISOString() }))
    cli.file('json.log', lines.join('\n'))
    const served = await sentOverHttp(sent, { rules: createRules(RULES) })
    const rules = compileRules(RULES)
    expect(await decisionsOf('json.log', { time: 'at' }, (options) => replayRules(rules, options))).toEqual(served)
    expect(served.filter(({ allowed }) => !allowed).length).toBeGreaterThan(50)
  })
})

describe('sluice replay', () => {
  const burst = (ip: string, second: number, count: number, path = '/'): string[] =>
    Array.from({ length: count }, () => clfLine(START + second * 1000, ip, path))

  it('prints requests, denials, and the keys that were hit hardest with their worst minute', async () => {
    const lines = [...burst('192.0.2.1', 0, 7), ...burst('192.0.2.2', 1, 2), ...burst('192.0.2.1', 120, 9)]
    cli.file('hard.log', [...lines, 'no log'].join('\n'))
    const { code, out } = await replay('hard.log', '--limit', 'fixedWindow 5/1m')
    expect(code).toBe(0)
    expect(out).toContain('12 requests admitted, 6 denied (33.3 %)')
    expect(out).toMatch(/^fixedWindow 5\/1m +18 +12 +6 +0 +1$/m)
    expect(out).toMatch(
      /^192\.0\.2\.1 +6 +4 at 2026-11-22T11:02Z +2026-11-22T11:00:00\.000Z +2026-11-22T11:02:00\.000Z$/m,
    )
    expect(out).toContain('not read: 1 line, another format')
    expect(out).toContain('note: the log has whole seconds')
    const found = await report('hard.log', '--limit', 'fixedWindow 5/1m shadow')
    expect(found.limits[0]).toMatchObject({ denied: 0, shadow: 6, admitted: 18, keysDenied: 1 })
    expect(found.decisions).toMatchObject({ denied: 0, admitted: 18 })
  })

  it('decides about several limits as one transaction', async () => {
    cli.file('two.log', burst('192.0.2.1', 0, 10, '/login').join('\n'))
    const limits = ['--limit', 'fixedWindow 4/1m name=a', '--limit', 'fixedWindow 3/1m name=b path=/login']
    const found = await report('two.log', ...limits)
    // The first limit is charged for admitted requests only, so it never denies.
    expect(found.limits.map(({ denied }) => denied)).toEqual([0, 7])
    const apart = await report('two.log', '--compare', '--limit', 'fixedWindow 4/1m', '--limit', 'fixedWindow 3/1m')
    expect(apart.limits.map(({ denied }) => denied)).toEqual([6, 7])
    expect(apart.decisions).toBeUndefined()
  })

  it('compares every algorithm with the exact log', async () => {
    const sent = generated(2000, 3, 1)
    cli.file('compare.log', sent.map((each) => JSON.stringify(each)).join('\n'))
    const found = await report('compare.log', '--time', 'time', '--compare', '--limit', 'fixedWindow 10/1m')
    const names = found.limits.map(({ limit }) => limit)
    expect(names).toContain('slidingWindowLog 10/1m')
    expect(names.length).toBeGreaterThan(6)
    expect(names).not.toContain('concurrent 10/1m')
    const by = new Map(found.limits.map((each) => [each.limit, each.exact!]))
    expect(by.get('slidingWindowLog 10/1m')).toEqual({ compared: 2000, tooStrict: 0, tooLenient: 0 })
    expect(by.get('fixedWindow 10/1m')!.tooLenient).toBeGreaterThan(0)
    expect(by.get('gcra 10/1m')!.tooLenient).toBeGreaterThan(0)
    const { out } = await replay('compare.log', '--time', 'time', '--compare', '--limit', 'fixedWindow 10/1m')
    expect(out).toMatch(/^limit .*too strict +too lenient\nfixedWindow 10\/1m /)
    expect(out).toMatch(/^slidingWindowLog 10\/1m .* 0 \(0 %\) +0 \(0 %\)$/m)
  })

  it('counts the requests that only the limit denies, and those that only the exact log denies', async () => {
    const sent = generated(2000, 3, 1)
    cli.file('exact.log', sent.map((each) => JSON.stringify(each)).join('\n'))
    const text = 'gcra 10/1m burst=8'
    const verdicts = await decisionsOf('exact.log', { time: 'time' }, (options) =>
      replayLimits([parseLimit(text)], options),
    )
    const admitted = new Map<string, readonly number[]>()
    let [tooStrict, tooLenient] = [0, 0]
    for (const [i, { allowed, limits }] of verdicts.entries()) {
      const { key } = limits[0]!
      const { time } = sent[i]!
      const held = (admitted.get(key) ?? []).filter((each) => each + 60_000 > time)
      const admits = held.length < 10
      admitted.set(key, admits ? [...held, time] : held)
      if (admits && !allowed) tooStrict++
      if (!admits && allowed) tooLenient++
    }
    expect(tooStrict).toBeGreaterThan(0)
    expect(tooLenient).toBeGreaterThan(tooStrict)
    const { limits } = await report('exact.log', '--time', 'time', '--compare', '--limit', text, '--limit', text)
    expect(limits[0]!.exact).toEqual({ compared: 2000, tooStrict, tooLenient })
  })

  it('counts the units of --cost', async () => {
    const lines = [3, 1, 2].map((units, i) => JSON.stringify({ time: START + i, ip: '192.0.2.1', units }))
    cli.file('cost.log', lines.join('\n'))
    const found = await report('cost.log', '--time', 'time', '--cost', 'units', '--limit', 'fixedWindow 4/1m')
    expect(found.limits[0]).toMatchObject({ requests: 3, admitted: 2, denied: 1 })
  })

  it('charges what rules charge, or with `--cost` what the log says', async () => {
    const lines = Array.from({ length: 12 }, () => JSON.stringify({ time: START, tokens: 3, units: 6 }))
    const limits = [{ quota: 12, window: '1h', shadow: true }]
    const policy = (name: string, cost: unknown): object => ({ name, cost, key: 'everyone', limits })
    const policies = [policy('number', 2), policy('attribute', 'tokens')]
    const words = [cli.file('costs.log', lines.join('\n')), '--time', 'time', '--rules']
    const rules = cli.file('costs.json', JSON.stringify({ policies }))
    const denied = async (...more: string[]): Promise<unknown> =>
      (await report(...words, rules, ...more)).limits.map(({ limit, shadow }) => [limit, shadow])
    expect(await denied()).toEqual([
      ['number: number', 6],
      ['attribute: attribute', 8],
    ])
    expect(await denied('--cost', 'units')).toEqual([
      ['number: number', 10],
      ['attribute: attribute', 10],
    ])
  })

  it('names the line that a server would not decide', async () => {
    const lines = [3, -3].map((tokens) => JSON.stringify({ time: START, tokens }))
    const policies = [{ name: 'a', cost: 'tokens', key: 'everyone', limits: STRICT }]
    const rules = cli.file('cost.json', JSON.stringify({ policies }))
    const found = await replay(cli.file('cost.log', lines.join('\n')), '--time', 'time', '--rules', rules)
    expect(found).toMatchObject({
      code: 1,
      error: expect.stringContaining('cost.log:2: cost: expected a whole number'),
    })
  })

  it('names the facts of rules that a log never has', async () => {
    cli.file('facts.log', burst('192.0.2.1', 0, 2).join('\n'))
    const policy = { name: 'a', match: { attributes: { plan: 'free' } }, key: 'header:x-key', limits: STRICT }
    cli.file('facts.json', JSON.stringify({ policies: [policy] }))
    const { out } = await replay('facts.log', '--rules', 'facts.json')
    expect(out).toContain('note: the rules use attribute:plan, header:x-key, which no request of the log has')
  })

  it('holds slots from the arrival of a request to its end, as a list of what runs does', async () => {
    const durations = [0, 700, 3000, 90_000]
    const sent = generated(400, 7, 50).map((each, i) => Object.assign(each, { took: durations[(i * 7) % 4]! }))
    const lines = sent.map(({ time, ip, path, method, took }) =>
      JSON.stringify({ time: time + took, responseTime: took, req: { method, url: path, remoteAddress: ip } }),
    )
    cli.file('slots.log', lines.join('\n'))
    const running: { readonly ip: string; readonly end: number }[] = []
    let admitted = 0
    for (const { time, ip, took } of sent.toSorted((a, b) => a.time - b.time)) {
      if (running.filter((each) => each.ip === ip && each.end > time).length >= 3) continue
      running.push({ ip, end: time + took })
      admitted++
    }
    const words = ['--ipv6-subnet', '128', '--format', 'pino-http']
    const found = await report('slots.log', '--limit', 'concurrent 3', ...words)
    expect(found.limits[0]).toMatchObject({ limit: 'concurrent 3', admitted, denied: sent.length - admitted })
    // A request that takes longer than the lease keeps its slot: an adapter renews it.
    const short = await report('slots.log', '--limit', 'concurrent 3 expiresAfter=5s', ...words)
    expect(short.limits[0]).toMatchObject({ admitted, denied: sent.length - admitted })
    const document = 'policies: [{ name: jobs, key: ip, limits: [{ algorithm: concurrent, quota: 3 }] }]'
    const rules = await report('slots.log', '--rules', cli.file('slots.yaml', document), ...words)
    expect(rules.limits[0]).toMatchObject({ admitted })
  })

  it('refuses limits of slots for a log without durations, and in a comparison', async () => {
    cli.file('short.log', clfLine(START, '192.0.2.1', '/'))
    const document = 'policies: [{ name: jobs, key: ip, limits: [{ algorithm: concurrent, quota: 10 }] }]'
    const limits = { '--rules': cli.file('slots.yaml', document), '--limit': 'concurrent 10' }
    for (const words of Object.entries(limits)) {
      const { code, error } = await replay('short.log', ...words)
      expect(code).toBe(2)
      expect(error).toContain('this log does not say when they end')
    }
    const { code, error } = await replay('short.log', '--limit', 'concurrent 10', '--compare')
    expect([code, error]).toEqual([2, expect.stringContaining('expected a limit with a window for --compare')])
  })

  it('says when there were more keys than it keeps', async () => {
    cli.file('many.log', Array.from({ length: 300 }, (_, i) => clfLine(START, `192.0.2.${i % 250}`, '/')).join('\n'))
    const found = await report('many.log', '--max-keys', '10', '--limit', 'fixedWindow 1/1m')
    expect(found.notes.join()).toContain('more keys than --max-keys')
    expect(found.limits[0]).toMatchObject({ keysDenied: 10, hasMoreKeys: true })
  })

  it('compares with an exact log until there are more keys than it keeps', async () => {
    // The exact log keeps a key for a minute, and the limit for 12 seconds.
    const lines = Array.from({ length: 60 }, (_, i) => clfLine(START + i * 3000, `192.0.2.${i}`, '/'))
    cli.file('keys.log', lines.join('\n'))
    const limits = ['--limit', 'gcra 5/1m', '--limit', 'gcra 1/1m']
    const found = await report('keys.log', '--max-keys', '5', '--compare', ...limits)
    expect(found.limits.map(({ exact }) => exact)).toEqual([
      { compared: 5, tooStrict: 0, tooLenient: 0 },
      { compared: 5, tooStrict: 0, tooLenient: 0 },
    ])
    expect(found.notes.join()).toContain('from the first key above --max-keys on, requests are not compared')
    const room = await report('keys.log', '--compare', ...limits)
    expect([room.limits[0]!.exact, room.notes]).toEqual([{ compared: 60, tooStrict: 0, tooLenient: 0 }, []])
  })

  it('escapes the keys of clients, each in one line', async () => {
    const request = { time: START, user: 'ann\nbob  1,000\u001b[31mred' }
    cli.file('lines.log', [1, 2].map(() => JSON.stringify(request)).join('\n'))
    const { out } = await replay('lines.log', '--time', 'time', '--key', 'user', '--limit', 'fixedWindow 1/1m')
    expect(out).toMatch(/^ann\\nbob {2}1,000\\u001b\[31mred +1 +1 at /m)
    expect(out).not.toMatch(/^bob/m)
    expect(out).not.toContain('\u001b')
  })

  it('writes no file that it reads', async () => {
    const lines = burst('192.0.2.1', 0, 2).join('\n')
    cli.file('read.log', lines)
    rmSync(join(cli.home, 'read.link'), { force: true })
    symlinkSync('read.log', join(cli.home, 'read.link'))
    const { code, error } = await replay('read.log', '--limit', 'fixedWindow 1/1m', '--html', 'read.link')
    expect([code, error]).toEqual([2, expect.stringContaining('--html: read.link is a file that is read')])
    expect(readFileSync(join(cli.home, 'read.log'), 'utf8')).toBe(lines)
  })
})

describe('limits of the command line', () => {
  it('have options and filters', () => {
    const options = { quota: 100, window: 60_000, burst: 20, strict: true, block: 900_000 }
    expect(parseLimit('gcra 100/1m burst=20 strict block=15m').limit).toMatchObject({ algorithm: 'gcra', ...options })
    const { limit } = parseLimit('fixedWindow 9/1mo anchor=calendar timeZone=Europe/Berlin')
    expect(limit).toMatchObject({ anchor: 'calendar' })
    const { matches } = parseLimit('gcra 1/1s path=/login,/users/:id method=post')
    const asked = (method: string, path: string): boolean =>
      matches!({ time: 0, ip: '', user: '', method, path, headers: undefined, fields: undefined })
    expect([asked('POST', '/Login/?a'), asked('POST', '/users/7'), asked('GET', '/login'), asked('POST', '/')]).toEqual(
      [true, true, false, false],
    )
    expect(parseLimit('gcra 1/1s').matches).toBeUndefined()
  })

  it.each([
    ['grca 1/1m', 'UNKNOWN_ALGORITHM', 'Did you mean "gcra"?'],
    ['gcra 1/1m busrt=2', 'UNKNOWN_OPTION', 'Did you mean "burst"?'],
    ['gcra 1/1m pth=/a', 'UNKNOWN_OPTION', 'Did you mean "path"?'],
    ['gcra', 'INVALID_OPTION', 'expected a quota and a window'],
    ['gcra 100', 'INVALID_OPTION', 'expected a quota and a window'],
    ['gcra x/1m', 'INVALID_OPTION', 'quota: expected a whole number'],
    ['gcra 1/fortnight', 'INVALID_OPTION', 'window: expected'],
    ['gcra 1/1m burst', 'INVALID_OPTION', 'expected a value'],
    ['gcra 1/1m path=login', 'INVALID_OPTION', 'expected a path'],
    ['gcra 1/1m method=G(T', 'INVALID_OPTION', 'expected a method'],
    ['', 'UNKNOWN_ALGORITHM', 'expected'],
    ['concurrent 10/1m', 'INVALID_OPTION', 'expected how many requests may run after concurrent, such as 10'],
    ['concurrent', 'INVALID_OPTION', 'expected how many requests may run after concurrent, such as 10'],
  ])('refuses %j', (text, code, message) => {
    expect(() => parseLimit(text)).toThrow(expect.objectContaining({ code, message: expect.stringContaining(message) }))
  })
})

describe('the counts', () => {
  it('over time are complete, whatever the length of the log', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(10_000_000), fc.boolean()), { minLength: 1, maxLength: 300 }), (given) => {
        const timeline = new Timeline()
        let time = START
        for (const [gap, isDenied] of given) timeline.add((time += gap), isDenied)
        const { from, width, admitted, denied } = timeline.report()
        const sum = (counts: readonly number[]): number => counts.reduce((total, each) => total + each, 0)
        expect(sum(denied)).toBe(given.filter(([, isDenied]) => isDenied).length)
        expect(sum(admitted) + sum(denied)).toBe(given.length)
        expect(admitted.length).toBeLessThanOrEqual(240)
        expect(Date.parse(from) + admitted.length * width).toBeGreaterThan(time)
      }),
    )
  })

  it('of keys name the ten that were denied most', () => {
    const tally = new Tally(false, 1000)
    for (let key = 1; key <= 30; key++) for (let i = 0; i < key; i++) tally.add(`k${key}`, START + i * 30_000, false)
    const { hardest, keysDenied, hasMoreKeys } = tally.report()
    const most = Array.from({ length: 10 }, (_, i) => [`k${30 - i}`, 30 - i])
    expect(hardest.map(({ key, denied }) => [key, denied])).toEqual(most)
    expect(hardest[0]).toMatchObject({ worstMinute: { at: '2026-11-22T11:00:00.000Z', denied: 2 } })
    expect({ keysDenied, hasMoreKeys }).toEqual({ keysDenied: 30, hasMoreKeys: false })
  })
})
