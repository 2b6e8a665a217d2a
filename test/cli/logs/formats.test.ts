import fc from 'fast-check'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { Format, formatNamed, FORMATS } from '../../../src/cli/logs/formats.ts'
import { anyTime, isoTime, type LoggedRequest, type ParseSettings } from '../../../src/cli/logs/request.ts'

const OPTIONS: ParseSettings = { wantsHeaders: true, wantsFields: true, zone: undefined, fields: new Map() }

interface Read {
  readonly name: string | undefined
  readonly requests: readonly LoggedRequest[]
  readonly refused: readonly string[]
}

function read(lines: readonly string[], options: Partial<ParseSettings> = {}, name?: string): Read {
  const format = new Format(name, { ...OPTIONS, ...options })
  const found = lines.map((line) => format.parse(line))
  return {
    name: format.name,
    requests: found.filter((each) => typeof each === 'object'),
    refused: found.filter((each) => typeof each === 'string'),
  }
}

function sample(name: string): Read {
  const text = readFileSync(fileURLToPath(new URL(`samples/${name}`, import.meta.url)), 'utf8')
  return read(text.split('\n').slice(0, -1))
}

const brief = ({ requests }: Read): string[] => requests.map(({ method, path }) => `${method} ${path}`)

const FIRST = ['GET /', 'POST /login?next=%2Fhome', 'GET /private', 'DELETE /a//../b']
const SENT = [...FIRST, 'GET /caf%C3%A9', 'GET /café"x', 'GET /old']

describe('the logs of real programs', () => {
  it.each([
    ['nginx', '11:03:03'],
    ['nginx-common', '11:03:03'],
    ['apache', '13:24:46'],
    ['apache-common', '13:24:46'],
    ['apache-vhost', '13:24:46'],
  ])('reads what %s has written', (name, clock) => {
    const found = sample(`${name}.log`)
    expect(found.name).toBe('clf')
    expect(brief(found)).toEqual([...SENT, 'GET /six'])
    expect(found.refused).toEqual(['no request'])
    expect(found.requests[0]).toMatchObject({ ip: '127.0.0.1', user: '' })
    expect(found.requests.at(-1)).toMatchObject({ ip: '::1', user: '' })
    expect(found.requests[0]?.time).toBe(Date.parse(`2026-11-22T${clock}Z`))
  })

  it('reads what Caddy has written, and subtracts the duration', () => {
    const found = sample('caddy.log')
    expect(found).toMatchObject({ name: 'caddy', refused: [] })
    // Caddy answers a request without a version and does not log it.
    expect(brief(found)).toEqual([...SENT.slice(0, -1), 'GET /six'])
    expect(found.requests.map(({ ip }) => ip)).toEqual([...Array<string>(6).fill('127.0.0.1'), '::1'])
    expect(found.requests[1]?.headers).toMatchObject({ 'user-agent': 'curl "quoted" \\ agent', 'content-length': '8' })
    expect(found.requests[2]?.user).toBe('ann b [22/Nov/2026')
    // Its password took 2.9 seconds to check.
    expect(found.requests[2]?.time).toBeCloseTo(1_795_353_886_050.991 - 2877.814, 2)
    expect(found.requests[4]?.headers).toMatchObject({ 'user-agent': 'zoë' })
  })

  it('reads a user with spaces and brackets, and headers with quotation marks, from nginx and Apache', () => {
    const nginx = sample('nginx.log').requests
    expect(nginx[2]).toMatchObject({ user: 'ann b [22/Nov/2026', path: '/private' })
    for (const { headers } of [nginx[1]!, sample('apache.log').requests[1]!, sample('apache-vhost.log').requests[1]!]) {
      expect(headers).toEqual({ referer: 'http://example.com/from?a=1', 'user-agent': 'curl "quoted" \\ agent' })
    }
    expect(nginx[4]?.headers).toEqual({ 'user-agent': 'zoë' })
    expect(sample('nginx-common.log').requests[1]?.headers).toBeUndefined()
  })

  it.each(['pino-http', 'morgan-combined', 'morgan-common', 'morgan-json'])('reads what %s has written', (name) => {
    const found = sample(`${name}.log`)
    expect(brief(found)).toEqual(['GET /', 'POST /login?next=%2Fhome', 'GET /users/7'])
    for (const { ip, time } of found.requests) {
      expect(ip).toBe('127.0.0.1')
      expect(Math.floor(time / 1000)).toBe(Date.parse('2026-11-22T11:03:04Z') / 1000)
    }
    if (name.startsWith('morgan')) expect(found.requests[1]?.user).toBe('ann')
    if (name !== 'morgan-common') expect(found.requests[1]?.headers).toMatchObject({ 'user-agent': 'an agent' })
  })

  it('reads lines of an application in the log of pino-http as no requests, and subtracts the duration', () => {
    const found = sample('pino-http.log')
    expect(found.name).toBe('pino-http')
    expect(found.refused).toEqual(['no request', 'no request', 'no request'])
    expect(found.requests[0]?.time).toBe(1_795_345_384_619 - 3)
    expect(found.requests[2]?.headers).toMatchObject({ 'x-api-key': 'k1' })
  })

  it('reads the documented examples of Caddy, Traefik and AWS', () => {
    const [caddy] = sample('caddy-documented.log').requests
    expect(caddy).toMatchObject({ ip: '127.0.0.1', method: 'GET', path: '/', headers: { 'user-agent': 'curl/7.82.0' } })
    expect(caddy?.time).toBeCloseTo(1_646_861_401_524.102 - 0.929675, 2)
    for (const name of ['traefik.log', 'traefik-json.log']) {
      const [traefik] = sample(name).requests
      expect(traefik).toMatchObject({ ip: '192.0.2.7', method: 'GET', path: '/login?a=1' })
      expect(traefik?.headers).toMatchObject({ 'user-agent': 'curl/8.5.0' })
      expect(Math.floor(traefik!.time / 1000)).toBe(Date.parse('2026-11-22T09:48:04Z') / 1000)
    }
    expect(sample('traefik-json.log').requests[0]?.time).toBe(Date.parse('2026-11-22T09:48:04Z') + 123.456)
    expect(sample('traefik.log').requests[0]?.user).toBe('ann')
    expect(sample('alb.log')).toMatchObject({ name: 'alb', refused: [] })
    expect(brief(sample('alb.log'))).toEqual(['GET /', 'GET /a?b=c', 'GET /'])
    expect(sample('alb.log').requests[0]).toMatchObject({
      ip: '192.168.131.39:2817',
      time: Date.parse('2018-07-02T22:22:48.364Z'),
      headers: { 'user-agent': 'curl/7.46.0' },
    })
    expect(sample('elb.log')).toMatchObject({ name: 'elb', refused: ['no request'] })
    expect(sample('elb.log').requests[0]?.time).toBe(Date.parse('2015-05-13T23:39:43.945Z') + 0.958)
  })
})

describe('lines of the common format with a virtual host', () => {
  const rest = '[22/Nov/2026:11:03:04 +0000] "GET / HTTP/1.1" 200 1'

  it.each([
    ['www.example.com:443 192.0.2.1 - ann b', '192.0.2.1', 'ann b'],
    ['[2001:db8::5]:80 2001:db8::1 - -', '2001:db8::1', ''],
    ['192.0.2.5:80 client.example.com ident ann', 'client.example.com', 'ann'],
  ])('%s: the client follows the host', (begin, ip, user) => {
    expect(read([`${begin} ${rest}`]).requests).toMatchObject([{ ip, user }])
  })

  it.each([
    ['192.0.2.1:4711 - ann', '192.0.2.1:4711', 'ann'],
    ['client.example.com - 192.0.2.1 x', 'client.example.com', '192.0.2.1 x'],
    ['2001:db8::1 ident ann', '2001:db8::1', 'ann'],
    ['fe80::1%eth0 - -', 'fe80::1%eth0', ''],
    ['[2001:db8::1]:4711 - -', '[2001:db8::1]:4711', ''],
    [':1 - -', ':1', ''],
  ])('%s has none', (begin, ip, user) => {
    expect(read([`${begin} ${rest}`]).requests).toMatchObject([{ ip, user }])
  })
})

describe('general JSON lines', () => {
  it('reads fields by dotted paths', () => {
    const fields = new Map([
      ['time', 'at.start'],
      ['ip', 'client.address'],
    ])
    const line =
      '{"at":{"start":"2026-11-22T12:00:00.5+02:00"},"client":{"address":"192.0.2.1"},"method":"GET","path":"/a"}'
    const found = read([line, '{"at":{}}', '{"at', '[1]', '1'], { fields })
    expect(found.name).toBe('json')
    expect(found.requests[0]).toMatchObject({ ip: '192.0.2.1', method: 'GET', path: '/a', user: '' })
    expect(found.requests[0]?.time).toBe(Date.parse('2026-11-22T10:00:00.500Z'))
    expect(found.refused).toEqual(['no time that can be read', 'broken JSON', 'another format', 'another format'])
  })

  it('is not detected without the name of the time', () => {
    expect(read(['{"time":"2026-11-22T12:00:00Z","ip":"192.0.2.1"}']).name).toBeUndefined()
  })
})

describe('times', () => {
  it.each([
    ['1795345384', 1_795_345_384_000],
    [1_795_345_384, 1_795_345_384_000],
    [1_795_345_384.25, 1_795_345_384_250],
    [1_795_345_384_250, 1_795_345_384_250],
    [1_795_345_384_250_500, 1_795_345_384_250.5],
    [1_795_345_384_250_500_000, 1_795_345_384_250.5],
    ['Sun, 22 Nov 2026 11:03:04 GMT', Date.parse('2026-11-22T11:03:04Z')],
    ['22/Nov/2026:11:03:04 -0130', Date.parse('2026-11-22T12:33:04Z')],
    ['2024-02-29T00:00:00Z', Date.parse('2024-02-29T00:00:00Z')],
    // Epoch time has no leap seconds.
    ['2016-12-31T23:59:60Z', Date.parse('2017-01-01T00:00:00Z')],
    ['31/Dec/2016:23:59:60 +0000', Date.parse('2017-01-01T00:00:00Z')],
  ])('reads %s', (text, time) => {
    expect(anyTime(text, undefined)).toBe(time)
  })

  it.each([
    [
      '2026-02-29T00:00:00Z',
      '2026-13-01T00:00:00Z',
      '2026-00-01T00:00:00Z',
      '31/Apr/2026:11:03:04 +0000',
      '2026-11-22T24:00:00Z',
      '2026-11-22T10:60:00Z',
    ],
    ['2026-11-22T10:00:60Z', '22/Foo/2026:11:03:04 +0000', '2/Nov/2026:11:03:04 +0000', '22/ovD/2026:11:03:04 +0000'],
    ['22/Nov/2026:11:03:04 +9900', '22/Nov/2026:1a:03:04 +0000', 'yesterday', ''],
    [0, -1, Number.NaN, Infinity, 17, true, null, {}],
  ])('refuses %s and the like', (...given) => {
    for (const each of given) expect(anyTime(each, undefined)).toBeNaN()
  })

  it('refuses a time without a zone, unless there is one in the options', () => {
    expect(isoTime('2026-11-22T12:00:00', undefined)).toBeNaN()
    expect(isoTime('2026-11-22T12:00:00', 120)).toBe(Date.parse('2026-11-22T10:00:00Z'))
    expect(isoTime('2026-11-22T12:00:00Z', 120)).toBe(Date.parse('2026-11-22T12:00:00Z'))
  })
})

describe('hostile lines', () => {
  const names = [...new Set(FORMATS.map(formatNamed))]

  it.each(names)('%s never throws, and takes time in proportion to the length', (name) => {
    const fields = new Map([['time', 'time']])
    const parts = ['22/Nov/2026:11:03:04 +0000', 'GET / HTTP/1.1']
    const pieces = fc.constantFrom('"', '\\', ' ', '[', ']', '- ', '{', '1', ...parts)
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 40 }), (given) => {
        const found = new Format(name, { ...OPTIONS, fields }).parse(given.join(''))
        expect(['string', 'object']).toContain(typeof found)
      }),
      { numRuns: 200 },
    )
    const began = performance.now()
    for (const piece of ['"', '\\', '\\"', ' ', '[', '- - [', '" "', '{"a":', ' HTTP/', 'GET '])
      new Format(name, { ...OPTIONS, fields }).parse(piece.repeat(65_536 / piece.length))
    expect(performance.now() - began).toBeLessThan(2000)
  })

  it('refuses lines of other shapes with a reason', () => {
    const good = '192.0.2.1 - - [22/Nov/2026:11:03:04 +0000] "GET / HTTP/1.1" 200 1'
    const reasons: readonly [line: string, reason: string][] = [
      [good.replace('22/Nov', '31/Nov'), 'no time that can be read'],
      [good.replace('GET / HTTP/1.1', '-'), 'no request'],
      [good.slice(0, 50), 'cut off'],
      ...[good.replace('192.0.2.1 - - ', ''), 'nonsense', ''].map((line): [string, string] => [line, 'another format']),
    ]
    for (const [line, reason] of reasons) expect(read([line], {}, 'clf').refused).toEqual([reason])
  })

  it('names the nearest format', () => {
    expect(() => formatNamed('cady')).toThrow('Did you mean caddy?')
    expect(formatNamed('nginx')).toBe('clf')
  })
})
