import { afterEach, describe, expect, it, vi } from 'vitest'
import { Composer, Lexer, Parser } from 'yaml'
import { checkRules } from '../../src/rules/compile.ts'
import { type ParsedText, problemText, type RulesProblem } from '../../src/rules/document.ts'
import { formatOf, LARGEST, parseText } from '../../src/rules/text.ts'

const refusal = async (text: string, format: 'json' | 'yaml' = 'yaml'): Promise<string> => {
  const parsed = await parseText(text, format)
  if (!('problems' in parsed)) throw new Error('It was accepted')
  return parsed.problems.map(problemText).join('\n')
}

describe('a text of rules', () => {
  it('has a format by the name of its file', () => {
    expect(formatOf('a.json')).toBe('json')
    expect(['a.yaml', 'a.yml', 'A.YML'].map(formatOf)).toEqual(['yaml', 'yaml', 'yaml'])
    expect(['a.txt', 'json', 'a.json.bak'].map(formatOf)).toEqual([undefined, undefined, undefined])
  })

  it('may share parts by aliases, and keeps times as text', async () => {
    const text = 'a: &common { quota: 1, until: 2026-12-01T00:00:00Z }\nb: [*common, *common]\n'
    const common = { quota: 1, until: '2026-12-01T00:00:00Z' }
    expect(await parseText(text, 'yaml')).toMatchObject({ value: { a: common, b: [common, common] } })
  })

  it('is read as YAML 1.2, whatever it says', async () => {
    const text = 'quota: 010\nshadow: yes\nuntil: 2026-12-01T00:00:00Z\n<<: { a: 1 }\n'
    const value = { quota: 10, shadow: 'yes', until: '2026-12-01T00:00:00Z', '<<': { a: 1 } }
    expect(await parseText(text, 'yaml')).toMatchObject({ value })
    expect(await parseText(`%YAML 1.1\n---\n${text}`, 'yaml')).toMatchObject({ value })
  })

  it('of YAML needs quotes where a value is compared as text, and YAML would read another text', async () => {
    const quoted = 'key: "007"\nattributes: { zip: "01234", plan: [1, 1.5, -3, true, free], none: ~ }\nquota: 1e3'
    const value = {
      key: '007',
      attributes: { zip: '01234', plan: [1, 1.5, -3, true, 'free'], none: null },
      quota: 1000,
    }
    expect(await parseText(quoted, 'yaml')).toMatchObject({ value })
    expect(await refusal('overrides: [{ key: 007 }, { key: [a, 1e3] }]')).toBe(
      'line 1:20: expected quotes around 007: without them, YAML reads 7\n' +
        'line 1:38: expected quotes around 1e3: without them, YAML reads 1000',
    )
    expect(await refusal('attributes:\n  version: [1.10, 2]\n  is: True\n  id: 12345678901234567890')).toBe(
      'line 2:13: expected quotes around 1.10: without them, YAML reads 1.1\n' +
        'line 3:7: expected quotes around True: without them, YAML reads true\n' +
        'line 4:7: expected quotes around 12345678901234567890: without them, YAML reads 12345678901234567000',
    )
  })

  it('of YAML with mistakes is refused with all of their lines', async () => {
    expect(await refusal('a: 1\nb: [\nc: }\n')).toMatch(/^line 3:1: [^]*\nline 3:4: /)
    expect(await refusal('a: 1\nb: { c: 1, c: 2 }\na: 2')).toBe('line 2:12: second "c"\nline 3:1: second "a"')
    expect(await refusal('a: !custom 1')).toMatch(/^line 1:4: .*!custom/)
    expect(await refusal('a: 1\n---\na: 2')).toBe('line 2:1: expected one document, got several')
    expect(await refusal('a: *nothing')).toBe('line 1:4: no anchor "nothing" before')
  })

  it('of JSON with mistakes is refused', async () => {
    expect(await refusal('{"a": }', 'json')).toMatch(/^expected JSON\. Unexpected token/)
    const twice = '{ "a": [{ "b": 1, "c": { "b": 1 } }, { "b": 2,\n"\\u0062": 3 }], "c": "a",\n"a": 1, "a": 2 }'
    expect(await refusal(twice, 'json')).toBe('line 2: second "b"\nline 3: second "a"\nline 3: second "a"')
  })
})

/**
 * Returns the mistakes of a text, found in bounded time. It is the time of the processor, so that other work on the machine does not count.
 * Each text takes about 0.1 s.
 */
async function foundSoon(text: string, format: 'json' | 'yaml'): Promise<readonly RulesProblem[]> {
  const before = process.cpuUsage()
  const parsed = await parseText(text, format)
  const problems = 'problems' in parsed ? parsed.problems : parsed.located(checkRules(parsed.value))
  const { user, system } = process.cpuUsage(before)
  expect((user + system) / 1000).toBeLessThan(3000)
  expect(problems.length).toBeLessThanOrEqual(101)
  return problems
}

describe('a hostile text', () => {
  /** Repeats a text up to the largest size of a document. */
  function filled(unit: string | ((i: number) => string), start = '', end = ''): string {
    const parts = [start]
    let length = start.length + end.length
    for (let i = 0; ; i++) {
      const part = typeof unit === 'string' ? unit : unit(i)
      length += Buffer.byteLength(part)
      if (length > LARGEST.yaml) return parts.join('') + end
      parts.push(part)
    }
  }
  const bomb = Array.from({ length: 12 }, (_, i) =>
    i === 0
      ? 'a0: &a0 [1,1,1,1,1,1,1,1,1]'
      : `a${i}: &a${i} [${Array(9)
          .fill(`*a${i - 1}`)
          .join(',')}]`,
  ).join('\n')
  const shared = `policies:\n  - match: &m { path: [${Array.from({ length: 400 }, (_, i) => `/a${i}`).join(', ')}] }\n`
  const deep = (i: number): string => `${' '.repeat(i % 300)}a:\n`

  /** Each has as many bytes as a document may have, unless its name says another thing. */
  const texts: Readonly<Record<string, readonly [text: string, expected: RegExp]>> = {
    'a bomb of aliases': [bomb, /at most 50000 values/],
    'aliases of one list': [
      shared + Array.from({ length: 490 }, (_, i) => `  - { name: p${i}, match: *m }\n`).join(''),
      /at most 50000 values/,
    ],
    'many aliases': [filled('  - *a\n', 'a: &a 1\nb:\n'), /at most 500 aliases/],
    'many anchors': [filled((i) => `- &a${i} x\n`), /at most 500 anchors/],
    'aliases among anchors': [
      Array.from({ length: 499 }, (_, i) => `- &a${i} x\n- *a${i}\n`).join(''),
      /expected a document such as/,
    ],
    'an alias of itself': ['a: &a [*a]', /at most 50000 values/],
    'aliases of nothing': [Array(499).fill('- *none\n').join(''), /no anchor "none" before/],
    'deep brackets': [filled('['), /at most 64 levels/],
    'deep braces': [filled('{a: '), /at most 64 levels/],
    'deep lists': [filled('- '), /at most 64 levels/],
    'deep maps': [filled('a: '), /at most 64 levels/],
    'deep keys': [filled('? '), /at most 64 levels/],
    'deep lines': [filled(deep), /./],
    'closing brackets': [filled(']'), /and more/],
    'closing braces': [filled('}\n'), /and more/],
    commas: [filled(',', '['), /at most 80000 words/],
    'commas in lines': [filled('[,,,,,,,,,]\n'), /./],
    'question marks': [filled('? ', '{'), /./],
    'equal names': [filled('a: 1\n', '', '\n'), /at most 80000 words/],
    'equal names with long values': [filled(`a: ${'x'.repeat(20)}\n`), /second "a"/],
    'long names': [filled(`${'x'.repeat(900)}: 1\n`), /second "x/],
    'names that are too long': [filled(`${'x'.repeat(2000)}: 1\n`), /at most 1024 chars/],
    'one long name': [filled('x', '', ': 1'), /at most 1024 chars/],
    'names that are lists': [filled('? [aaaaaaaa, bbbbbbbbb]\n: 1\n'), /expected a text as a name/],
    'names in many lines': [filled('"a\n b": c\n'), /./],
    'many different names': [filled((i) => `name${i}: ${'1'.repeat(20)}\n`), /at most 3 names/],
    'an open quote': [filled('a', '"'), /Missing closing "quote/],
    'an open quote in many lines': [filled('a\n', '"'), /Missing closing "quote/],
    'many quotes': [filled('"'), /Unexpected double-quoted/],
    'wrong escapes': [filled('\\q', '"', '"'), /Invalid escape sequence/],
    'wrong code points': [filled('\\u00', '"', '"'), /Invalid escape sequence/],
    tabs: [filled('\t'), /expected a document such as/],
    'tabs as indentation': [filled('a:\n\tb\n'), /Tabs are not allowed|words/],
    'anchors of one node': [filled('& '), /at most 500 anchors/],
    tags: [filled('- !x yyyyyyyyyy\n'), /Unresolved tag/],
    'tags of one node': [filled('!abcdefg '), /at most one tag/],
    'tags without a handle': [filled('- !x!y zzzzzzzzz\n'), /Could not resolve tag/],
    'one long tag': [filled('!'), /./],
    'merge keys': [filled('- {<<: {a: 1}}\n'), /words|expected/],
    'nested merge keys': [`- &b {a: 1}\n${'- {<<: *b, a: 1}\n'.repeat(499)}`, /expected a document/],
    'merge keys of YAML 1.1': [`%YAML 1.1\n---\n- &b {a: 1}\n- {<<: *b}\n- {<<: 5}\n`, /expected a document/],
    'merge keys by their tag': ['policies:\n  - !!merge <<: 5\n', /Unresolved tag/],
    'a bomb of merge keys': [
      `%YAML 1.1\n---\n- &a0 {a: 1}\n${Array.from({ length: 200 }, (_, i) => `- &a${i + 1} {<<: [*a${i}, *a${i}]}\n`).join('')}`,
      /at most 50000 values/,
    ],
    'headers of blocks': [filled('- |9xxxxxxx\n'), /Block scalar header/],
    directives: [filled('%FOO\n'), /./],
    'many documents': [filled('---\naaaaaaaa: 11111111\n'), /expected one document, got several/],
    'ends of documents': [filled('...\n'), /./],
    comments: [filled('#\n'), /words|expected/],
    'empty lines': [filled('\n'), /words|expected/],
    'reserved characters': [filled('@a\n'), /./],
    'control characters': [filled('\0'), /./],
    'byte order marks': [filled('\uFEFF'), /./],
    'a large text': ['#'.repeat(LARGEST.yaml + 1), /at most 128 KiB of YAML, got more\. Write .* as JSON/],
  }

  it.each(Object.keys(texts))('of YAML is refused in bounded time: %s', async (name) => {
    const [text, expected] = texts[name]!
    const messages = (await foundSoon(text, 'yaml')).map(({ message }) => message)
    expect(messages.join('\n')).toMatch(expected)
    expect(messages[100] ?? 'and more').toMatch(/^and more/)
    expect(Math.max(...messages.map(({ length }) => length))).toBeLessThanOrEqual(501)
  })

  it('of YAML makes no stacks of its errors, and others keep theirs', async () => {
    const limit = Error.stackTraceLimit
    Error.stackTraceLimit = 7
    const composed = vi.spyOn(Composer.prototype, 'compose').mockImplementation(() => {
      throw new Error(`${Error.stackTraceLimit} frames`)
    })
    await expect(parseText('a: 1', 'yaml')).rejects.toThrow(/^0 frames/)
    composed.mockRestore()
    expect(Error.stackTraceLimit).toBe(7)
    Error.stackTraceLimit = limit
  })

  it('of YAML with many errors is not read to its end', async () => {
    const lexed = vi.spyOn(Lexer.prototype, 'lex')
    const parsed = vi.spyOn(Parser.prototype, 'next')
    await refusal(filled(']'))
    expect(lexed).toHaveBeenCalledTimes(1)
    expect(parsed.mock.calls.length).toBeLessThan(200)
    vi.restoreAllMocks()
  })

  it('of YAML lets other work run while it is read', async () => {
    let turns = 0
    const work = setInterval(() => turns++, 0)
    const text = filled((i) => `- { name: policy-${i}, key: ip, limits: [{ quota: 1, window: 1m }] }\n`, '', '}')
    await refusal(text)
    clearInterval(work)
    expect(turns).toBeGreaterThan(10)
  })

  const names = (count: number, name: (i: number) => string): string =>
    Array.from({ length: count }, (_, i) => `${JSON.stringify(name(i))}:1`).join()
  const policies = (override: string): string =>
    `{"policies":[{"name":"a","key":"ip","limits":[{"quota":1,"window":"1m"}],"overrides":[${override}]}]}`
  const json: Readonly<Record<string, readonly [text: string, expected: RegExp]>> = {
    'deep brackets': ['['.repeat(LARGEST.json), /expected JSON/],
    'deep lists': ['['.repeat(LARGEST.json / 2) + ']'.repeat(LARGEST.json / 2), /expected a document/],
    'many names': [`{${names(80_000, (i) => `k${i}`)}}`, /at most 3 names/],
    'long names': [`{${names(40, (i) => `${i}`.padEnd(20_000, 'x'))}}`, /is not known here/],
    'unknown names': [
      policies(
        Array(10_000)
          .fill(`{${names(5, (i) => `limit${i}`)}}`)
          .join(),
      ),
      /and more/,
    ],
    'wrong values': [policies(Array(100_000).fill('1').join()), /and more/],
    'an open quote': [`{"${'a'.repeat(LARGEST.json - 2)}`, /expected JSON/],
    'many values': [`[${'1,'.repeat(LARGEST.json / 2 - 2)}1]`, /at most 1000000 values|expected a document/],
  }
  it.each(Object.keys(json))('of JSON is refused in bounded time: %s', async (name) => {
    const [text, expected] = json[name]!
    expect(text.length).toBeLessThanOrEqual(LARGEST.json)
    const problems = await foundSoon(text, 'json')
    expect(problems.map(({ message }) => message).join('\n')).toMatch(expected)
    expect(Math.max(...problems.map(({ message, path }) => message.length + path.length))).toBeLessThan(1000)
  })

  it('of JSON that is large is refused', async () => {
    expect(await refusal(`"${'a'.repeat(LARGEST.json)}"`, 'json')).toBe('expected at most 1 MiB of JSON, got more')
  })

  it('has names of prototypes as plain names', async () => {
    const { value } = (await parseText('__proto__: { polluted: 1 }\nconstructor: 2', 'yaml')) as { value: object }
    expect(Object.keys(value)).toEqual(['__proto__', 'constructor'])
    expect('polluted' in value).toBe(false)
  })
})

describe('a document of the largest size', () => {
  it('of YAML is read', async () => {
    const policy = (i: number): string =>
      `  - name: policy-${i}\n    match: { method: POST, path: /a/${i}, attributes: { plan: [free, trial] } }\n` +
      `    key: [ip, header:x-device]\n    limits:\n      - { quota: 60, window: 1m }\n`
    let text = 'policies:\n'
    for (let i = 0; text.length + policy(i).length <= LARGEST.yaml; i++) text += policy(i)
    expect(text.length).toBeGreaterThan(0.99 * LARGEST.yaml)
    expect(checkRules(((await parseText(text, 'yaml')) as { value: unknown }).value)).toEqual([])
  })
})

describe('the line of a path', () => {
  const yaml = `policies:
  - name: api
    match:
      "odd name": 1
    limits: &limits
      - quota: 1
        window: 1 min
  - name: other
    limits: *limits
`
  const json = `{
  "policies": [
    { "name": "a\\"}]", "match":
      { "odd name": [1,
        2] } },
    {
      "name": "b" }
  ]
}`

  it.each([
    ['yaml', 'policies[0].limits[0].window', 7],
    ['yaml', 'policies[0].match["odd name"]', 4],
    ['yaml', 'policies[1].limits[0].window', 7],
    ['yaml', 'policies[1].key', 8],
    ['yaml', 'policies[1]', 8],
    ['yaml', '', 1],
    ['json', 'policies', 2],
    ['json', 'policies[0]', 3],
    ['json', 'policies[0].match', 3],
    ['json', 'policies[0].match["odd name"]', 4],
    ['json', 'policies[0].match["odd name"][1]', 5],
    ['json', 'policies[1]', 6],
    ['json', 'policies[1].name', 7],
    ['json', 'policies[1].key', 6],
    ['json', '', 1],
  ] as const)('of %s: %s', async (format, path, line) => {
    const parsed = (await parseText({ yaml, json }[format], format)) as Exclude<ParsedText, { problems: unknown }>
    expect(parsed.located([{ path, message: '' }])[0]!.line).toBe(line)
  })
})

describe('without the package yaml', () => {
  const withoutYaml = async (): Promise<typeof import('../../src/rules/text.ts')> => {
    vi.resetModules()
    vi.doMock('yaml', () => {
      throw new Error('Cannot find package')
    })
    return import('../../src/rules/text.ts')
  }
  afterEach(() => {
    vi.doUnmock('yaml')
    vi.resetModules()
  })

  it('YAML fails with the command that installs it', async () => {
    const { parseText: parse } = await withoutYaml()
    const error: unknown = await parse('policies: []', 'yaml').catch((reason: unknown) => reason)
    expect(error).toMatchObject({
      code: 'MISSING_PACKAGE',
      message: expect.stringContaining('npm install yaml') as string,
    })
    expect((error as Error).cause).toBeInstanceOf(Error)
  })

  it('rulesFromFile fails at once for YAML, even with a fallback', async () => {
    await withoutYaml()
    const { rulesFromFile } = await import('../../src/rules/file.ts')
    await expect(rulesFromFile('none.yaml', { fallback: { policies: [] } })).rejects.toMatchObject({
      code: 'MISSING_PACKAGE',
    })
  })
})
