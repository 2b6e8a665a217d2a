import { describe, expect, it } from 'vitest'
import { linesIn } from '../../src/rules/text/lines.ts'
import { formatOf, parseText } from '../../src/rules/text/text.ts'

const refusal = async (text: string, format: 'json' | 'yaml' = 'yaml'): Promise<string> => {
  const parsed = await parseText(text, format)
  if (!('problems' in parsed)) throw new Error('It was accepted')
  return parsed.problems.map(({ message }) => message).join('\n')
}

describe('a text of rules', () => {
  it('has a format by the name of its file', () => {
    expect(['a.json', 'a.yaml', 'a.yml', 'A.YML', 'a.txt', 'json', 'a.json.bak'].map(formatOf)).toEqual([
      'json',
      'yaml',
      'yaml',
      'yaml',
      undefined,
      undefined,
      undefined,
    ])
  })

  it('may share parts by aliases, and keeps times as text', async () => {
    const text = 'a: &common { quota: 1, until: 2026-12-01T00:00:00Z }\nb: [*common, *common]\n'
    const common = { quota: 1, until: '2026-12-01T00:00:00Z' }
    expect(await parseText(text, 'yaml')).toEqual({ value: { a: common, b: [common, common] } })
  })

  it('of YAML with mistakes is refused with all of their lines', async () => {
    expect(await refusal('a: 1\nb: [\nc: }\n')).toMatch(/^line 3, column 1: [^]*\nline 3, column 4: /)
    expect(await refusal('a: 1\nb: { c: 1, c: 2 }\na: 2')).toBe(
      'line 3, column 1: second "a"\nline 2, column 12: second "c"',
    )
    expect(await refusal('a: !custom 1')).toMatch(/^line 1, column 4: .*!custom/)
    expect(await refusal('a: 1\n---\na: 2')).toMatch(/^line 2, column 1: .*multiple documents/)
    expect(await refusal('a: *nothing')).toMatch(/^expected YAML. Unresolved alias .*nothing/)
  })

  it('of JSON with mistakes is refused', async () => {
    expect(await refusal('{"a": }', 'json')).toMatch(/^expected JSON\. Unexpected token/)
  })
})

describe('a hostile text is refused in bounded time', () => {
  const bomb = Array.from({ length: 12 }, (_, i) =>
    i === 0
      ? 'a0: &a0 [1,1,1,1,1,1,1,1,1]'
      : `a${i}: &a${i} [${Array(9)
          .fill(`*a${i - 1}`)
          .join(',')}]`,
  ).join('\n')

  const texts: Readonly<Record<string, readonly [text: string, expected: RegExp]>> = {
    'a bomb of aliases': [bomb, /at most 1000000 values/],
    'many aliases': [`a: &a 1\nb:\n${'  - *a\n'.repeat(100_000)}`, /at most 1000 aliases/],
    'an alias of itself': ['a: &a [*a]', /at most 1000000 values/],
    'deep brackets': ['['.repeat(500_000), /at most 64 levels/],
    'deep braces': ['{a: '.repeat(200_000), /at most 64 levels/],
    'deep lists': [`${'- '.repeat(100_000)}a`, /at most 64 levels/],
    'deep maps': ['a: '.repeat(100_000), /at most 64 levels/],
    'deep keys': ['? '.repeat(100_000), /at most 64 levels/],
    'deep lines': [Array.from({ length: 1000 }, (_, i) => `${' '.repeat(i)}a:`).join('\n'), /at most 64 levels/],
    'many errors': ['}\n'.repeat(20_000), /./],
    'many equal names': ['a: 1\n'.repeat(20_000), /second "a"/],
    'a large text': ['#'.repeat(2 ** 20 + 1), /at most 1 MiB of YAML/],
  }

  it.each(Object.keys(texts))('%s', async (name) => {
    const [text, expected] = texts[name]!
    const before = performance.now()
    const said = await refusal(text)
    expect(performance.now() - before).toBeLessThan(10_000)
    expect(said).toMatch(expected)
    expect(said.split('\n').length).toBeLessThanOrEqual(100)
  })

  it('JSON that is large', async () => {
    expect(await refusal(`"${'a'.repeat(16 * 2 ** 20)}"`, 'json')).toBe('expected at most 16 MiB of JSON, got more')
  })

  it('while many different names are read in less than quadratic time', async () => {
    const names = (count: number): string => Array.from({ length: count }, (_, i) => `k${i}: 1\n`).join('')
    const before = performance.now()
    expect(await parseText(names(40_000), 'yaml')).toHaveProperty('value')
    expect(performance.now() - before).toBeLessThan(15_000)
  })

  it('and names of prototypes are plain names', async () => {
    const { value } = (await parseText('__proto__: { polluted: 1 }\nconstructor: 2', 'yaml')) as { value: object }
    expect(Object.keys(value)).toEqual(['__proto__', 'constructor'])
    expect('polluted' in value).toBe(false)
  })
})

describe('the line of a path', () => {
  const text = `policies:
  - name: api
    match:
      "odd name": 1
    limits: &limits
      - quota: 1
        window: 1 min
  - name: other
    limits: *limits
`
  it.each([
    ['policies[0].limits[0].window', 7],
    ['policies[0].match["odd name"]', 4],
    ['policies[1].limits[0].window', 7],
    ['policies[1].key', 8],
    ['policies[1]', 8],
    ['', 1],
  ])('%s', async (path, line) => {
    expect((await linesIn(text))(path)).toBe(line)
  })

  it('is known for JSON, too', async () => {
    const json = JSON.stringify({ policies: [{ name: 'a', key: 'ip' }] }, undefined, 2)
    expect((await linesIn(json))('policies[0].key')).toBe(5)
  })
})
