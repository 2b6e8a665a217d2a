import fc from 'fast-check'
import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import type { LogEntry } from '../../../src/cli/logs/request.ts'
import { Memory, Reorder } from '../../../src/cli/logs/reorder.ts'
import { Lines, LONGEST_LINE } from '../../../src/cli/logs/source.ts'
import { logSettings, type LogValues } from '../../../src/cli/logs/options.ts'
import { type LogSummary, openProgress, readLogs } from '../../../src/cli/logs/read.ts'
import { commandLine } from '../../support/command-line.ts'
import { clfLine } from '../../support/logs.ts'

const cli = commandLine()
const file = cli.file.bind(cli)

const VALUES: LogValues = { reorder: '10s', 'ipv6-subnet': '56', 'max-keys': '1000' }
const START = Date.parse('2026-11-22T11:00:00Z')

/** Returns what is read, and the paths and keys of the requests in their order. */
async function read(
  paths: readonly string[],
  values: Partial<LogValues> = {},
): Promise<LogSummary & { seen: string[] }> {
  let seen: string[] = []
  const found = await readLogs(paths, logSettings({ ...VALUES, ...values }, false), () => {
    seen = []
    return ({ request, key }) => void seen.push(`${request.path} ${key}`)
  })
  return { ...found, seen }
}

const at = (seconds: number, path = `/${seconds}`, ip = '192.0.2.1'): string =>
  clfLine(START + seconds * 1000, ip, path)

describe('lines', () => {
  /** Returns the lines of a text that is cut into chunks. */
  function linesOf(bytes: Buffer, size: number): (string | undefined)[] {
    const found: (string | undefined)[] = []
    const lines = new Lines((line) => found.push(line))
    for (let i = 0; i < bytes.length; i += size) lines.push(bytes.subarray(i, i + size))
    lines.end()
    return found
  }

  it('are the same however the text is cut into chunks', () => {
    const texts = fc.array(fc.constantFrom('a', 'é', '\n', '\r\n', '\n\n'), { maxLength: 30 })
    fc.assert(
      fc.property(texts, fc.integer({ min: 1, max: 8 }), (parts, size) => {
        const expected = parts.join('').split(/\r?\n/)
        if (expected.at(-1) === '') expected.pop()
        expect(linesOf(Buffer.from(parts.join('')), size)).toEqual(expected)
      }),
    )
  })

  it('of every length are the same however the text is cut into chunks, up to the longest in bytes', () => {
    const lengths = fc.oneof(fc.nat(40_000), fc.constantFrom(32_767, 32_768, 65_535, LONGEST_LINE, 65_537, 200_000))
    const line = fc.tuple(fc.constantFrom('x', 'é', '€', '\r'), lengths)
    fc.assert(
      fc.property(fc.array(line, { maxLength: 8 }), fc.constantFrom(500, 40_000, 65_536, 1e6), (given, size) => {
        const texts = given.map(([letter, bytes]) => letter.repeat(bytes / Buffer.byteLength(letter)))
        const bytes = Buffer.from(texts.map((text) => `${text}\n`).join(''))
        const found = linesOf(bytes, size)
        const expected = texts.map((text) =>
          Buffer.byteLength(text) > LONGEST_LINE ? undefined : text.replace(/\r$/, ''),
        )
        expect(found.length).toBe(expected.length)
        expect(found.every((each, i) => each === expected[i])).toBe(true)
      }),
      { numRuns: 60 },
    )
  })
})

describe('the reorder window', () => {
  const entry = (time: number, line: number, chunk = { size: 10, held: 0 }): LogEntry => ({
    request: { time, ip: '', user: '', method: '', path: '', headers: undefined, fields: undefined },
    key: '',
    cost: 1,
    line,
    chunk,
  })

  it('releases every entry that is not late in the order of times and lines, whatever the chunks', () => {
    const times = fc.array(fc.nat(30), { maxLength: 60 })
    fc.assert(
      fc.property(times, fc.nat(12), fc.integer({ min: 1, max: 9 }), (given, window, chunk) => {
        const reorder = new Reorder(window)
        const released: LogEntry[] = []
        const expected: [number, number][] = []
        let newest = -Infinity
        for (const [line, time] of given.entries()) {
          const late = reorder.add(entry(time, line))
          expect(late).toBe(time < newest - window ? newest - time : 0)
          if (late === 0) expected.push([time, line])
          newest = Math.max(newest, time)
          if (line % chunk === 0) reorder.release(released)
        }
        reorder.flush(released)
        const sorted = expected.toSorted(([one, a], [other, b]) => one - other || a - b)
        expect(released.map(({ request, line }) => [request.time, line])).toEqual(sorted)
      }),
    )
  })

  it('stores no more than its bytes', () => {
    const memory = new Memory(50_000)
    const reorder = new Reorder(1_000_000, memory)
    let released = 0
    for (let i = 0; i < 500; i++) {
      reorder.add(entry(i ^ 1, i))
      const dropped: LogEntry[] = []
      reorder.release(dropped)
      for (const each of dropped) memory.remove(each)
      released += dropped.length
      expect(i + 1 - released).toBeLessThanOrEqual(125)
    }
    expect(reorder.hasOverflowed).toBe(true)
  })
})

describe('logs', () => {
  it('of several files are merged by time, compressed or not, in any order of the files', async () => {
    const newer = file('access.log', `${at(20)}\n${at(30)}\n`)
    const older = file('access.log.1.gz', Buffer.concat([gzipSync(`${at(0)}\n`), gzipSync(`${at(19)}\n`)]))
    const other = file('other.log', `${at(10)}\n${at(20, '/b')}\n${at(25)}`)
    const expected = ['/0', '/10', '/19', '/20', '/b', '/25', '/30'].map((path) => `${path} 192.0.2.1`)
    const found = await read([newer, older, other])
    expect(found.seen).toEqual(expected)
    expect(found).toMatchObject({ requests: 7, from: '2026-11-22T11:00:00.000Z', until: '2026-11-22T11:00:30.000Z' })
    expect((await read([older, newer, other])).seen).toEqual(expected)
  })

  it('are sorted within the window', async () => {
    const path = file('backwards.log', [at(0), at(20), at(12), at(5), at(30), at(29)].join('\n'))
    const found = await read([path], { reorder: '15s' })
    expect(found.seen.map((each) => each.split(' ')[0])).toEqual(['/0', '/5', '/12', '/20', '/29', '/30'])
    expect(found.notes.join()).not.toContain('late')
  })

  it('count lines that cannot be read by reason, with the first of them', async () => {
    const bad = [1, 2, 3, 4].map((i) => `bad ${i}`)
    const lines = [at(0), '', ...bad, at(1).replace('GET /1 HTTP/1.1', '-'), 'x'.repeat(70_000)]
    const path = file('bad.log', lines.join('\n'))
    const { unread, lines: count } = await read([path])
    expect(count).toBe(7)
    expect(unread.map((each) => [each.reason, each.lines])).toEqual([
      ['another format', 4],
      ['no request', 1],
      ['longer than 64 KiB', 1],
    ])
    expect(unread[0]?.samples.map(({ line, text }) => `${line} ${text}`)).toEqual(['3 bad 1', '4 bad 2', '5 bad 3'])
  })

  const combined = (time: string): string => `192.0.2.1 - - [${time}] "GET / HTTP/1.1" 200 1 "-" "agent"`
  const caddy = (time: string): string => `{"ts":${time},"request":{"client_ip":"192.0.2.1","method":"GET","uri":"/"}}`
  it.each([
    ['clf', combined, '22/Nov/2026:11:00:00 +0000'],
    ['caddy', caddy, '1795345200'],
  ] as const)('of hostile clients are counted, every line of them (%s)', async (format, line, time) => {
    const good = Buffer.from(`${line(time)}\n`)
    const inserted = (at: number, byte: number): Buffer =>
      Buffer.concat([good.subarray(0, at), Buffer.of(byte), good.subarray(at)])
    const bytes = [...good.keys()].flatMap((at) => [0, 0x22, 0x5c, 0x80, 0xff].map((byte) => inserted(at, byte)))
    const dates = ['-1/Nov/2026:11:00:00 +0000', '22/Nov/-026:11:00:00 +0000']
    const times = [...dates, '-1795345200', '1e999', '-0', '99999999999999999999'].map(line)
    const hosts = ['fe80::1%eth0', '::1%"', '999.1.1.1', '1'.repeat(60_000), '"', '\u202e']
    const addresses = hosts.map((ip) => line(time).replace('192.0.2.1', ip))
    const deep = `{"ts":${'['.repeat(30_000)}`
    const long = ['\\', '"'].map((letter) => letter.repeat(60_000))
    const texts = [...times, ...addresses, deep, `{"__proto__":${line(time)}}`, ...long]
    const content = Buffer.concat([good, ...bytes, Buffer.from(texts.join('\n'))])
    const key = ['ip', 'header:user-agent']
    const { lines, unread, requests } = await read([file('hostile.log', content)], { format, key })
    expect(lines).toBe(1 + bytes.length + texts.length)
    expect(unread.reduce((sum, each) => sum + each.lines, requests)).toBe(lines)
    expect(unread.some(({ reason }) => reason === 'no time that can be read')).toBe(true)
  })

  it('that are cut off or damaged are read as far as possible', async () => {
    const many = Array.from({ length: 20_000 }, (_, i) => at(i >> 6, `/${(i * 7919) % 10_007}`)).join('\n')
    const whole = gzipSync(many)
    const cut = await read([file('cut.gz', whole.subarray(0, whole.length >> 1))])
    expect(cut.requests).toBeGreaterThan(5000)
    expect(cut.requests).toBeLessThan(20_000)
    expect(cut.notes.join()).toContain('the compressed data is cut off')
  })

  it('without a line that can be read are an error', async () => {
    await expect(read([file('empty.log', '')])).rejects.toMatchObject({ code: 'LOG_UNREADABLE' })
    await expect(read([file('empty.gz', Buffer.of(0x1f, 0x8b, 0))])).rejects.toThrow('the compressed data is ')
    await expect(read([file('prose.log', 'a\nb\n')])).rejects.toThrow('none of 2 lines can be read: 2 another format')
    for (const path of ['none.log', `${file('a.log', '')}/none.log`])
      await expect(read([path])).rejects.toMatchObject({ code: 'LOG_UNREADABLE' })
    await expect(read(['.'])).rejects.toThrow('.: EISDIR')
  })
})

describe('keys and costs', () => {
  it('are the same as those of keyers', async () => {
    const lines = [at(0, '/A//b/?x=1', '2001:db8::1'), at(1, '/a/b', '::ffff:192.0.2.7'), at(2, '/c', 'host.example')]
    const path = file('keys.log', lines.join('\n'))
    const keys = async (...key: string[]): Promise<string[]> =>
      (await read([path], { key })).seen.map((each) => each.split(' ')[1]!)
    expect(await keys('ip')).toEqual(['2001:db8::/56', '192.0.2.7', ''])
    expect(await keys('path')).toEqual(['/a/b', '/a/b', '/c'])
    expect(await keys('everyone')).toEqual(['everyone', 'everyone', 'everyone'])
    expect(await keys('method', 'path')).toEqual(['3:GET4:/a/b', '3:GET4:/a/b', '3:GET2:/c'])
    expect((await read([path])).notes.join()).toContain('1 of 3 requests have no key')
  })

  it('are fields of JSON lines', async () => {
    const line = (tenant: unknown, units: unknown): string => JSON.stringify({ t: START, a: { tenant }, units })
    const path = file('fields.log', [line('x', 2), line(7, 0), line(null, 1.5), line({}, 1)].join('\n'))
    const found = await read([path], { time: 't', key: ['a.tenant'], cost: 'units' })
    expect(found.seen).toEqual([' x', ' 7', ' '])
    expect(found.unread).toMatchObject([{ reason: 'no cost that is a whole number from 0', lines: 1 }])
  })
})

describe('the fields of a line', () => {
  it.each([true, false])('are kept for rules only (%s)', async (keepsFacts) => {
    const path = file('facts.log', JSON.stringify({ t: START, a: 'x', headers: { b: 'y' } }))
    const settings = logSettings({ ...VALUES, time: 't', key: ['a'] }, keepsFacts)
    const seen: LogEntry[] = []
    await readLogs([path], settings, () => (entry) => void seen.push(entry))
    expect(seen[0]?.key).toBe('x')
    expect(seen[0]?.request.fields).toEqual(keepsFacts ? { t: START, a: 'x', headers: { b: 'y' } } : undefined)
    expect(seen[0]?.request.headers).toEqual(keepsFacts ? { b: 'y' } : undefined)
  })
})

describe('the progress bar', () => {
  it('is on terminals only, and is removed at the end', async () => {
    const written: string[] = []
    const output = { isTTY: true, write: (text: string) => written.push(text) } as unknown as NodeJS.WriteStream
    const bar = openProgress(200e6, output)
    bar.add(50e6)
    await expect.poll(() => (bar.add(0), written.length)).toBeGreaterThan(0)
    expect(written[0]).toContain('25 % 50 MB')
    bar.close()
    expect(written.at(-1)).toBe('\r\u001b[K')
    const silent = openProgress(1, { ...output, isTTY: false } as NodeJS.WriteStream)
    silent.add(1)
    silent.close()
  })
})
