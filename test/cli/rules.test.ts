import { Redis } from 'ioredis'
import { afterAll, describe, expect, it } from 'vitest'
import { createLimiter } from '../../src/index.ts'
import { pushRules, redisStore } from '../../src/rules/redis/index.ts'
import { createRules } from '../../src/rules/index.ts'
import { commandLine, type Result } from '../support/command-line.ts'
import { startRedis } from '../support/redis.ts'

const cli = commandLine()
const server = await startRedis()
const client = new Redis(server.port)
afterAll(async () => {
  client.disconnect()
  await server.stop()
})

/** Runs `sluice rules` as a shell does. */
function rules(...words: readonly string[]): Promise<Result> {
  return cli.run(['rules', ...words])
}

/** Expects a command that fails. */
async function failure(...words: readonly string[]): Promise<Result> {
  const result = await rules(...words)
  expect(result.code).toBe(1)
  return result
}

async function json(...words: readonly string[]): Promise<unknown> {
  return JSON.parse((await rules(...words, '--json')).out) as unknown
}

const jsonFile = (name: string, content: object): string => cli.file(name, JSON.stringify(content))
const once1m = { key: 'ip', limits: [{ quota: 1, window: '1m' }] }

const GOOD = `# the rules of the shop
policies:
  - name: login
    match: { method: POST, path: /login }
    key: [ip, header:x-device]
    limits:
      - { algorithm: slidingWindowLog, quota: 5, window: 15m }
  - name: api
    match: { path: /api/*, attributes: { plan: [free, trial] } }
    key: attribute:tenant
    limits:
      - { quota: 60, window: 1m } # a minute
      - { quota: 10000, window: 1d, name: daily }
    overrides:
      - { key: tenant-42, limits: [{ quota: 600 }], until: 2999-12-01T00:00:00Z }
  - name: partners
    match: { ip: 192.0.2.0/24 }
    allow: true
`

describe('sluice rules check', () => {
  it('accepts a document without mistakes', async () => {
    const checked = await rules('check', cli.file('good.yaml', `otherwise: allow ${GOOD}`))
    expect(checked).toEqual({ code: 0, out: 'good.yaml: no mistakes\n', error: '' })
    const { code, out } = await rules('check', 'good.yaml', '--json')
    expect([code, out]).toEqual([0, '{\n  "valid": true,\n  "problems": [],\n  "warnings": []\n}\n'])
  })

  it('lists all mistakes of YAML and of JSON with their paths and lines', async () => {
    const wrong = GOOD.replace('window: 15m', 'window: 15 min').replace(
      'key: attribute:tenant\n',
      'kye: attribute:tenant\n',
    )
    const { code, out } = await rules('check', cli.file('wrong.yaml', wrong))
    expect([code, out.split('\n')]).toEqual([
      1,
      [
        expect.stringMatching(
          /^wrong\.yaml:7: policies\[0\]\.limits\[0\]\.window: expected a duration such as "1m", got "15 min"/,
        ),
        expect.stringMatching(/^wrong\.yaml:10: policies\[1\]\.kye: .*Did you mean "key"\?$/),
        'wrong.yaml:8: policies[1].key: expected a value, got nothing',
        '',
      ],
    ])
    const policies = [{ name: 'a', key: 'ip', limits: [{ quota: 1, window: 'x' }] }]
    const document = cli.file('wrong.json', JSON.stringify({ policies }, undefined, 1))
    expect(JSON.parse((await failure('check', document, '--json')).out)).toEqual({
      valid: false,
      warnings: [],
      problems: [{ path: 'policies[0].limits[0].window', message: expect.any(String), file: 'wrong.json', line: 9 }],
    })
  })

  it('reports a text that is no document', async () => {
    expect((await failure('check', cli.file('broken.yaml', 'policies: [\n'))).out).toMatch(/^broken\.yaml:2:1: /)
    expect((await failure('check', cli.file('large.yaml', '#'.repeat(2 ** 20 + 1)))).out).toMatch(
      /^large\.yaml: expected at most 128 KiB of YAML, got more\. Write .*\n$/,
    )
    expect((await failure('check', 'none.yaml')).error).toContain('ENOENT')
  })

  it('warns of requests that no policy matches, and so does a push', async () => {
    const warning = 'warning: rest.yaml:1: Requests that no policy matches are not limited. Add `otherwise: '
    const checked = await rules('check', cli.file('rest.yaml', GOOD))
    expect(checked).toMatchObject({ code: 0, out: 'rest.yaml: no mistakes\n', error: expect.stringContaining(warning) })
    expect((await rules('push', 'rest.yaml', server.url, '--name', 'rest')).error).toContain(warning)
    const warnings = [{ path: '', file: 'rest.yaml' }]
    expect(await json('check', 'rest.yaml')).toMatchObject({ valid: true, warnings })
  })

  const list = ['pro', 'free']
  it.each<[string, (string | string[])[], string | undefined]>([
    ['letters that are swapped', ['pro', 'por'], '[1].match.attributes.plan: no other policy has "por"'],
    ['a letter too few', ['free', 'fre'], '[1].match.attributes.plan: no other policy has "fre"'],
    ['a letter too many', ['free', 'freee'], '[1].match.attributes.plan: no other policy has "freee"'],
    ['another letter', ['trial', 'triel'], '[1].match.attributes.plan: no other policy has "triel"'],
    ['another letter case', ['pro', 'PRO'], '[1].match.attributes.plan: no other policy has "PRO"'],
    ['a value before the policies that are right', ['por', 'pro', list], '[0].match.attributes.plan: no'],
    [
      'one of a list',
      [list, ['por', 'x']],
      '[1].match.attributes.plan: no other policy has "por", and policies[0] has "pro"',
    ],
    ['other digits', ['v1', 'v2', 'tier-1', 'tier-2', 'tier-12'], undefined],
    ['short values', ['a', 'b', 'eu', 'us'], undefined],
    ['two letters', ['basic', 'magic'], undefined],
    ['values of one policy', [['pro', 'por']], undefined],
    ['values that several policies have', ['pro', 'por', 'pro', 'por'], undefined],
    ['more values than words', [Array.from({ length: 1001 }, (_, i) => `customer-${i}`), 'customer-x1'], undefined],
  ])('names a value of an attribute that looks misspelt: %s', async (_, plans, expected) => {
    const policies = plans.map((plan, i) => ({ name: `p${i}`, match: { attributes: { plan } }, ...once1m }))
    const { code, error } = await rules('check', jsonFile('plans.json', { policies, otherwise: 'allow' }))
    expect(code).toBe(0)
    if (expected === undefined) return expect(error).toBe('')
    expect(error).toMatch(/^warning: plans\.json:1: policies[^\n]*Is it misspelt\?\n$/)
    expect(error).toContain(expected)
  })

  it('escapes control characters of a document', async () => {
    const { out } = await rules('check', cli.file('control.yaml', '"\\e[31m": 1\n'))
    expect(out).toContain('\\u001b[31m')
  })
})

describe('sluice rules diff', () => {
  it('lists what changes, and for which requests', async () => {
    const next = GOOD.replace('quota: 60,', 'quota: 10,')
      .replace('quota: 10000', 'quota: 20000')
      .replace('quota: 5,', 'quota: 5, block: 1h,')
      .replace('quota: 600 }], until: 2999-12-01T00:00:00Z', 'quota: 300 }]')
      .replace(/ {2}- name: partners[^]*/, '  - { name: exports, key: ip, limits: [{ quota: 1, window: 1h }] }\n')
    const { code, out } = await rules('diff', cli.file('old.yaml', GOOD), cli.file('new.yaml', next))
    expect([code, out.split('\n')]).toEqual([
      0,
      [
        'removed    partners: ip 192.0.2.0/24: admitted without being counted',
        'tightened  login, limit login: 5 per 15m, slidingWindowLog → 5 per 15m, slidingWindowLog, block 1h',
        'tightened  api, limit api: 60 per 1m → 10 per 1m',
        'loosened   api, limit daily: 10000 per 1d → 20000 per 1d',
        'changed    api, key tenant-42: api 600 per 1m; daily 10000 per 1d until 2999-12-01T00:00:00Z → api 300 per 1m; daily 20000 per 1d',
        'added      exports: every request: 1 per 1h by ip',
        '',
      ],
    ])
  })

  it('lists overrides and policies that end, and parts of policies that change', async () => {
    const next = GOOD.replace(
      'key: attribute:tenant\n',
      'key: attribute:tenant\n    until: 2999-01-01T00:00:00Z\n    cost: 2\n',
    ).replace('[free, trial]', 'free')
    const { out } = await rules('diff', cli.file('old.yaml', GOOD), cli.file('ends.yaml', next))
    expect(out.split('\n')).toEqual([
      'changed    api: match {"path":"/api/*","attributes":{"plan":["free","trial"]}} → match {"path":"/api/*","attributes":{"plan":"free"}}',
      'tightened  api: no cost → cost 2',
      'changed    api: no until → until 2999-01-01T00:00:00Z',
      'ends       api at 2999-01-01T00:00:00.000Z',
      'ends       api, key tenant-42 at 2999-12-01T00:00:00.000Z: api 600 per 1m; daily 10000 per 1d → api 60 per 1m; daily 10000 per 1d',
      '',
    ])
  })

  it('describes limits of how many requests run at the same time', async () => {
    const file = (name: string, limit: object): string =>
      jsonFile(name, { policies: [{ name: 'a', key: 'ip', limits: [{ algorithm: 'concurrent', ...limit }] }] })
    const ten = file('ten.json', { quota: 10, expiresAfter: '1m' })
    expect((await rules('check', ten)).out).toBe('ten.json: no mistakes\n')
    const before = 'a, limit a: 10 at the same time, concurrent, expiresAfter 1m →'
    expect((await rules('diff', ten, file('five.json', { quota: 5, expiresAfter: '1m' }))).out).toBe(
      `tightened  ${before} 5 at the same time, concurrent, expiresAfter 1m\n`,
    )
    const longer = file('longer.json', { quota: 10, expiresAfter: '5m', retryAfter: '2s' })
    expect((await rules('diff', ten, longer)).out).toBe(
      `changed    ${before} 10 at the same time, concurrent, expiresAfter 5m, retryAfter 2s\n`,
    )
    expect((await failure('check', file('window.json', { quota: 10, window: '1m' }))).out).toMatch(
      /limits\[0\]\.window: is not known here; expected one of .*expiresAfter/,
    )
  })

  it('prints JSON, and nothing for equal documents', async () => {
    const plain = GOOD.replace(/ {4}overrides:[^]*?\n {2}-/, '  -')
    cli.file('plain.yaml', plain)
    expect((await rules('diff', 'plain.yaml', 'plain.yaml')).out).toBe('no difference\n')
    expect(await json('diff', 'plain.yaml', cli.file('less.yaml', plain.replace('60', '6')))).toEqual({
      differences: [{ kind: 'tightened', policy: 'api', limit: 'api', before: '60 per 1m', after: '6 per 1m' }],
    })
  })

  const rest = (quota: number): object => ({ key: 'ip', limits: [{ quota, window: '1m' }] })
  const policy = (quota: number, more: object = {}): object => ({
    name: 'a',
    match: { path: '/a' },
    ...rest(quota),
    ...more,
  })
  const ann = (quota: number): object => ({ overrides: [{ key: '192.0.2.1', limits: [{ quota }] }] })
  const a = policy(9)
  const changed = (more: object): object[] => [policy(9, more)]
  const two = { limits: [9, 1].map((quota) => ({ quota, window: quota === 9 ? '1m' : '1s' })) }
  const alert = (quota: number): object => ({ limits: [{ quota, window: '1m', notifyAt: [0.8, 1] }] })
  const open = { name: 'a', match: { path: '/' }, allow: true }
  const shadow = changed({ shadow: true })
  /** 100 in an hour, and 10 for Ann: the window is that of the policy. */
  const slow = changed({ limits: [{ quota: 100, window: '1h' }], ...ann(10) })
  it.each<[string, before: object[], after: object[], effects: string, otherwise?: unknown[]]>([
    ['a smaller quota', [a], [policy(8)], 'tightened'],
    ['a larger quota', [a], [policy(10)], 'loosened'],
    ['a smaller quota with an alert', changed(alert(9)), changed(alert(8)), 'tightened'],
    ['another condition', [a], changed({ match: { path: '/b' } }), 'loosened,tightened'],
    ['a policy', [], [a], 'tightened'],
    ['a policy less', [a], [], 'loosened'],
    ['a policy beside otherwise', [], [a], 'loosened,tightened', [rest(1), rest(1)]],
    ['a policy in shadow', [], changed({ shadow: true }), ''],
    ['an allowance', [], [open], 'loosened'],
    ['a limit', [a], changed(two), 'tightened'],
    ['an override', [a], changed(ann(10)), 'loosened'],
    ['an override less', changed(ann(10)), [a], 'tightened'],
    ['otherwise', [], [], 'tightened', [undefined, rest(5)]],
    ['otherwise: allow', [], [], '', [undefined, 'allow']],
    ['a smaller quota in otherwise', [], [], 'tightened', [rest(5), rest(4)]],
    ['otherwise: allow in place of limits', [], [], 'loosened', [rest(5), 'allow']],
    ['a policy that leaves the shadow beside otherwise', shadow, [a], 'loosened,tightened', [rest(1), rest(1)]],
    ['a policy that leaves the shadow', shadow, [a], 'tightened'],
    ['limits in place of an allowance, for others, too', [open], [a], 'loosened,tightened', [rest(1), rest(1)]],
    ['a shorter window, and so more for an override', slow, [policy(1, ann(10))], 'loosened,tightened'],
    ['a limit beside an override', changed(ann(10)), changed({ ...two, ...ann(10) }), 'tightened'],
    ['a limit less beside an override', changed({ ...two, ...ann(10) }), changed(ann(10)), 'loosened'],
    ['nothing', [a], [a], ''],
    ['nothing', [a], changed({ allow: false }), ''],
  ])('exits with 1 for what `--fail-on` names: %s', async (title, before, after, effects, [old, next] = []) => {
    const files = [
      jsonFile('before.json', { policies: before, otherwise: old }),
      jsonFile('after.json', { policies: after, otherwise: next }),
    ]
    for (const effect of ['loosened', 'tightened']) {
      const { code, error } = await rules('diff', ...files, '--fail-on', effect)
      expect([effect, code]).toEqual([effect, effects.includes(effect) ? 1 : 0])
      expect(error).toMatch(effects.includes(effect) ? /^--fail-on .*: \d of \d differences\n$/ : /^$/)
    }
    expect((await rules('diff', ...files, '--fail-on', 'loosened,tightened')).code).toBe(effects === '' ? 0 : 1)
    expect(await rules('diff', ...files)).toMatchObject({
      code: 0,
      out: title === 'nothing' ? 'no difference\n' : expect.not.stringContaining('no difference'),
    })
  })

  it('describes overrides, and requests that no policy matches', async () => {
    const diff = async (before: object, after: object): Promise<string> =>
      (await rules('diff', jsonFile('a.json', before), jsonFile('b.json', after))).out
    const given = { policies: [a] }
    expect(await diff(given, { policies: changed(ann(10)), otherwise: rest(5) })).toBe(
      'added      a, key 192.0.2.1: 9 per 1m → 10 per 1m\n' +
        'added      otherwise: requests that no policy matches: 5 per 1m by ip\n',
    )
    expect(await diff({ ...given, otherwise: rest(5) }, { policies: changed(two), otherwise: rest(4) })).toBe(
      'added      a, limit a-2: 1 per 1s\ntightened  otherwise, limit otherwise: 5 per 1m → 4 per 1m\n',
    )
    expect(await diff(given, { ...given, otherwise: 'allow' })).toBe(
      'added      otherwise: requests that no policy matches: admitted without being counted\n',
    )
  })
})

describe('sluice rules push and pull', () => {
  it('keep the text as it is, and count versions', async () => {
    cli.file('push.yaml', GOOD)
    expect(await rules('push', 'push.yaml', server.url)).toMatchObject({ code: 0, out: 'rules: version 1 is pushed\n' })
    expect(await rules('push', 'push.yaml', server.url, '--json', '--writer', 'ci')).toMatchObject({ code: 0 })
    const { code, out, error } = await rules('pull', server.url)
    expect([code, out]).toEqual([0, GOOD])
    expect(error).toMatch(/^version 2, pushed by ci at 20.*Z\n$/)
    expect(await json('pull', server.url)).toMatchObject({ version: 2, text: GOOD })
  })

  it('refuse to overwrite a concurrent change, and name its writer', async () => {
    cli.file('push.yaml', GOOD)
    await pushRules(client, GOOD, { name: 'shared', writer: 'ada@web-1' })
    await pushRules(client, GOOD, { name: 'shared', writer: 'bob@web-2' })
    const words = ['push', 'push.yaml', server.url, '--name', 'shared', '--version', '1']
    expect((await failure(...words)).error).toMatch(/version 1, but bob@web-2 pushed version 2 at 20/)
    expect(JSON.parse((await failure(...words, '--json')).out)).toMatchObject({
      pushed: false,
      conflict: { version: 2, writer: 'bob@web-2' },
    })
  })

  it('refuse mistakes, and rules that are not there', async () => {
    expect((await failure('push', jsonFile('wrong.json', { policies: [{}] }), server.url)).out).toContain(
      'wrong.json:1: policies[0].name: expected a value, got nothing',
    )
    expect((await failure('pull', server.url, '--name', 'none')).error).toContain('Redis has no rules named "none"')
    expect((await failure('pull', 'redis://ada:secret@127.0.0.1:1')).error).toMatch(
      /^sluice: no connection to redis:\/\/ada:\*\*\*@/,
    )
  })
})

describe('sluice rules history and rollback', () => {
  it('say who changed what, and restore a version', async () => {
    const place = [server.url, '--name', 'past']
    const push = async (writer: string, text: string): Promise<unknown> =>
      rules('push', cli.file('past.yaml', text), ...place, '--writer', writer)
    await push('ada\nversion 9', GOOD)
    await push('bob', GOOD.replace('quota: 60,', 'quota: 6,').replace('quota: 5,', 'quota: 50,'))
    await push('eve', GOOD.replace('quota: 60,', 'quota: 6,').replace('quota: 5,', 'quota: 50,'))
    expect((await rules('rollback', ...place, '1', '--writer', 'ada')).out).toBe(
      'past: version 4 is pushed. It restores version 1\n',
    )
    const { code, out } = await rules('history', ...place)
    expect([code, out.replaceAll(/ at 20\S+Z/g, ' at T').split('\n')]).toEqual([
      0,
      [
        'version 4, pushed by ada at T, restores version 1',
        '  tightened  login, limit login: 50 per 15m, slidingWindowLog → 5 per 15m, slidingWindowLog',
        '  loosened   api, limit api: 6 per 1m → 60 per 1m',
        expect.stringMatching(/^ {2}ends {7}api, key tenant-42/),
        'version 3, pushed by eve at T',
        expect.stringMatching(/^ {2}ends {7}api, key tenant-42/),
        'version 2, pushed by bob at T',
        '  loosened   login, limit login: 5 per 15m, slidingWindowLog → 50 per 15m, slidingWindowLog',
        '  tightened  api, limit api: 60 per 1m → 6 per 1m',
        expect.stringMatching(/^ {2}ends {7}api, key tenant-42/),
        'version 1, pushed by ada\\nversion 9 at T',
        '',
      ],
    ])
    expect(await json('history', ...place)).toMatchObject({
      history: [{ version: 4, restores: 1, differences: [{ kind: 'tightened' }, {}, {}] }, {}, {}, { version: 1 }],
    })
    expect(await json('rollback', ...place, '3')).toMatchObject({ version: 5, restores: 3 })
  })

  it('list a document that cannot be compared, and many differences in short', async () => {
    const many = Array.from({ length: 20 }, (_, i) => ({ name: `p${i}`, ...once1m }))
    for (const policies of [[], many, []]) await pushRules(client, { policies }, { name: 'odd' })
    await client.hset('sluice::rules:odd', 'text', '{ "policies": 1 }')
    const { out } = await rules('history', server.url, '--name', 'odd')
    expect(out).toMatch(
      /^version 3, [^\n]*\n {2}cannot be compared: The rules have a mistake: .*policies: [^]*and 10 more\nversion 1, /,
    )
    expect(out.split('\n')).toHaveLength(2 + 12 + 1 + 1)
  })
})

describe('sluice rules explain', () => {
  const login = ['--method', 'POST', '--path', '/login', '--ip', '203.0.113.7', '--header', 'x-device=a']

  it('says the verdict first, then which policies apply, which do not, and why', async () => {
    const { code, out } = await rules('explain', cli.file('good.yaml', GOOD), ...login, '--attribute', 'plan=free')
    expect([code, out]).toEqual([
      0,
      `Limited by login.

login: applies
  ✓ path: /login is /login
  ✓ method: POST is POST
  key: ip=203.0.113.7 header:x-device=a
  limit login: 5 per 15m, slidingWindowLog

api: does not apply
  ✗ path: /login is not /api/*
  ✓ attributes.plan: free is free, trial
  key: attribute:tenant=none, shared by all requests without one
  limit api: 60 per 1m
  limit daily: 10000 per 1d

partners: does not apply
  ✗ ip: 203.0.113.7 is not 192.0.2.0/24
  requests are admitted without being counted
`,
    ])
    const other = await rules('explain', 'good.yaml', '--path', '/', '--header', 'x-device=a b')
    expect(other.out).toMatch(/^Not limited: no policy applies\.\n/)
    expect(other.out).toContain('  key: ip=none header:x-device="a b"\n')
  })

  const ended = { key: '192.0.2.1', limits: [{ quota: 9 }], until: '2020-01-01T00:00:00Z' }
  const none = 'Not limited with what is given: no policy applies. Would be limited by pro with header x-api-key'
  it.each<[string[], string]>([
    [[], `${none}, by free with attribute plan.`],
    [['--header', 'x-api-key=1'], 'Limited by pro. Would be limited by free with attribute plan.'],
    [['--attribute', 'plan=gold'], `${none}.`],
    [['--attribute', 'plan=gold', '--header', 'x-api-key=1'], 'Limited by pro.'],
  ])('says what was not given: %j', async (given, verdict) => {
    const policies = [
      { name: 'pro', match: { header: { 'x-api-key': true } }, ...once1m, overrides: [ended] },
      { name: 'free', match: { attributes: { plan: 'free' }, path: '/*' }, ...once1m },
      { name: 'old', match: { header: { 'x-old': '1' } }, ...once1m, until: '2020-01-01T00:00:00Z' },
      { name: 'staff', match: { attributes: { staff: true } }, allow: true },
    ]
    const words = ['--path', '/a', '--ip', '192.0.2.1', ...given]
    const explained = await rules('explain', jsonFile('keys.json', { policies }), ...words)
    expect(explained.out.split('\n')[0]).toBe(verdict)
    expect(explained.out).toContain('\n  limit pro: 1 per 1m\n')
    const { out } = await rules('explain', jsonFile('rest.json', { policies, otherwise: once1m }), ...words)
    expect(out).toContain(verdict.startsWith('Not') ? 'Limited by otherwise. Would' : verdict)
    expect(out).toMatch(verdict.startsWith('Not') ? /otherwise: applies/ : /otherwise: does not apply/)
  })

  it('says which override applies, and what allows a request', async () => {
    const attributes = ['--attribute', 'plan=trial', '--attribute', 'tenant=tenant-42']
    const words = [cli.file('good.yaml', GOOD), '--path', '/api/notes', '--ip', '192.0.2.9', ...attributes]
    const { out } = await rules('explain', ...words)
    expect(out).toContain('an override applies to this key until 2999-12-01T00:00:00Z\n  limit api: 600 per 1m\n')
    expect(out).toMatch(/^Admitted without being counted, by partners\.\n/)
  })

  it('says what has been used, with a Redis URL', async () => {
    await pushRules(client, GOOD, { name: 'shop' })
    const document = JSON.parse(String(await client.hget('sluice::rules:shop', 'json'))) as never
    const limiter = createLimiter({ rules: createRules(document), name: 'shop', store: redisStore(client) })
    const request = { method: 'POST', path: '/login', ip: '203.0.113.7', headers: { 'x-device': 'a' } }
    const from = [cli.file('good.yaml', GOOD), '--redis', server.url, '--limiter', 'shop']
    const unused = (await rules('explain', ...from, ...login)).out
    expect(unused).toMatch(/^A request would be admitted now\. Limited by login\.\n/)
    expect(unused).toContain('  limit login: 5 per 15m, slidingWindowLog; 5 left now\n')
    await limiter.consume(request)
    expect((await rules('explain', ...from, ...login)).out).toContain('; 4 left now, resets in 1')
    for (let i = 0; i < 4; i++) await limiter.consume(request)
    const { out } = await rules('explain', ...from, ...login)
    expect(out).toMatch(/^A request would be denied now by login, limit login, retry in 14 min 5\d s\.\n/)
    expect(out).toMatch(
      /limit login: 5 per 15m, slidingWindowLog; 0 left now, retry in 14 min 5\d s, resets in 14 min 5\d s\n/,
    )
    expect(await json('explain', server.url, '--name', 'shop', '--limiter', 'shop', ...login)).toMatchObject({
      admitted: false,
      policies: [{ policy: 'login', applies: true, limits: [{ usage: { remaining: 0 } }] }, { applies: false }, {}],
    })
    expect((await limiter.peek(request)).limits[0]!.remaining).toBe(0)
  })

  it('does not say that a policy in shadow limits a request', async () => {
    const limits = [{ quota: 1, window: '1h' }]
    const policies = [{ name: 'trial', key: 'ip', limits, shadow: true }]
    const verdict = async (otherwise?: object): Promise<string> =>
      (await rules('explain', jsonFile('trial.json', { policies, otherwise }), '--ip', '192.0.2.1')).out.split('\n')[0]!
    expect(await verdict()).toBe('Not limited: only policies in shadow apply.')
    expect(await verdict({ key: 'ip', limits })).toBe('Limited by otherwise.')
    Object.assign(policies[0]!, { match: { header: { 'x-api-key': true } } })
    expect(await verdict()).toBe('Not limited: no policy applies.')
  })

  it('charges the cost that an attribute gives', async () => {
    const document = { policies: [{ name: 'tokens', key: 'ip', cost: 'units', limits: [{ quota: 5, window: '1h' }] }] }
    const words = ['--ip', '192.0.2.1', '--redis', server.url, '--limiter', 'costs']
    const admitted = async (units: number): Promise<string> =>
      (await rules('explain', jsonFile('costs.json', document), ...words, '--attribute', `units=${units}`)).out
    expect(await admitted(5)).toMatch(/^A request would be admitted now\. Limited by tokens\.\n/)
    expect(await admitted(6)).toMatch(/^A request would be denied now by tokens, limit tokens, never admitted\.\n/)
  })

  it('does not blame a limit in shadow for a denial', async () => {
    const hourly = { quota: 1, window: '1h' }
    const limits = [hourly, { ...hourly, name: 'trial', shadow: true }]
    const document = { policies: [{ name: 'both', key: 'ip', limits }] }
    const limiter = createLimiter({ rules: createRules(document), name: 'trials', store: redisStore(client) })
    await limiter.consume({ ip: '192.0.2.1' })
    const words = ['--ip', '192.0.2.1', '--redis', server.url, '--limiter', 'trials']
    const { out } = await rules('explain', jsonFile('both.json', document), ...words)
    expect(out).toMatch(/^A request would be denied now by both, limit both, retry in (?:1 h|59 min \d+ s)\.\n/)
  })
})
