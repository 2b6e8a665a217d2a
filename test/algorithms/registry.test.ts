// What cannot read the registry of algorithms at run time is written from it: source texts, the JSON schema and tables of the docs.
// `npm run record` writes them. `test/algorithms/added.test.ts` adds an algorithm in a copy of the repository.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Algorithm, OptionField } from '../../src/algorithms/algorithm.ts'
import { formatted } from '../../build/format.mjs'
import { builtIn } from '../../src/algorithms/index.ts'
import { rulesSchema } from '../../src/rules/index.ts'
import { root } from '../support/programs.ts'
import { mostOf, worstAttack } from '../support/worst-case.ts'

const read = (file: string): string => readFileSync(join(root, file), 'utf8')

const lines = [...read('src/algorithms/registry.ts').matchAll(/^export \{ (.*) \} from '\.\/([\w-]+)\.ts'$/gm)]

/** The file of each algorithm, by the name of the algorithm, in the order of the registry. */
const files = new Map(lines.flatMap(([, names, file]) => names!.split(', ').map((name) => [name, file!] as const)))

const inOrder: readonly Algorithm[] = [...files.keys()].map((name) => builtIn.find((each) => each.name === name)!)

/** Returns the doc-comment of an algorithm. It is that of its factory. */
function docOf(name: string): string {
  const source = read(`src/algorithms/${files.get(name)!}.ts`)
  return new RegExp(String.raw`/\*\*(?:(?!\*/)[^])*\*/(?=\nexport const ${name}\b)`).exec(source)![0]
}

/** Returns the text of a doc-comment without its examples, in one line. */
function sentencesOf(doc: string): string {
  const text = doc.replaceAll(/^\/\*\*|\*\/$|^ *\* ?/gm, ' ').replace(/@example[^]*/, '')
  return text.replaceAll(/\s+/g, ' ').trim()
}

function examplesOf(doc: string): string[] {
  return [...doc.matchAll(/@example (.*?)(?: \*\/)?$/gm)].map(([, example]) => example!)
}

const TYPES: Readonly<Record<OptionField['kind'], (field: OptionField) => string>> = {
  count: () => 'number',
  duration: () => 'Duration',
  flag: () => 'boolean',
  choice: ({ choices = [] }) => choices.map((each) => `'${each}'`).join(' | '),
  text: () => 'string',
}

/** Returns the default of an option as code: the name of another option, or a literal. */
function fallbackOf({ kind, fallback }: OptionField): string {
  return kind === 'choice' || kind === 'text' ? `'${fallback}'` : fallback
}

function optionsTypeOf({ name }: Algorithm): string {
  return `${name[0]!.toUpperCase()}${name.slice(1)}Options`
}

/** Writes a doc-comment, in lines of at most 130 characters. */
function comment(text: string): string {
  const rows = text.match(/.{1,130}(?: |$)/g)!
  return rows.length === 1 ? `/** ${text} */` : `/**\n${rows.map((row) => ` * ${row.trim()}\n`).join('')} */`
}

/** The algorithms whose factory is only a call of `limit`. */
const plain = inOrder.filter(({ name }) => name !== 'spacing')

function hasOwnOptions({ options, windowUnit, windowOption }: Algorithm): boolean {
  return options.length > 0 || windowUnit !== undefined || windowOption !== undefined
}

function interfaceOf(algorithm: Algorithm): string {
  const { name, options, optionFields, windowUnit, windowOption } = algorithm
  if (!hasOwnOptions(algorithm)) return ''
  const fields = options.map((option) => {
    const field = optionFields![option]!
    return `${comment(`${field.meaning} Default: \`${fallbackOf(field)}\`.`)}\nreadonly ${option}?: ${TYPES[field.kind](field)}`
  })
  const window =
    "/** Milliseconds, or a string such as `'1m'`. With `anchor: 'calendar'`: `'1d'`, `'1w'`, `'1mo'` or `'1y'`. */\n" +
    "readonly window: Duration | '1mo' | '1y'"
  const base = (windowUnit ?? windowOption) ? "Omit<QuotaOptions, 'window'>" : 'QuotaOptions'
  const other =
    windowOption &&
    `${comment(`${windowOption.meaning} Default: \`'${windowOption.fallback}'\`.`)}\nreadonly ${windowOption.name}?: Duration`
  const members = [...(windowUnit ? [window] : []), ...(other ? [other] : []), ...fields]
  return `/** Options of \`${name}\`. */\nexport interface ${optionsTypeOf(algorithm)} extends ${base} {\n${members.join('\n')}\n}\n\n`
}

function factoryOf(algorithm: Algorithm): string {
  const { name, windowOption } = algorithm
  const type = hasOwnOptions(algorithm) ? optionsTypeOf(algorithm) : 'QuotaOptions'
  // Where the window has a default, the quota alone is a limit.
  const given = windowOption === undefined ? type : `number | ${type}`
  return `${interfaceOf(algorithm)}${docOf(name)}
export const ${name}: (options: ${given}) => Limit = /* @__PURE__ */ factoryOf(algorithms.${name})
`
}

/** The Lua texts beside the files of algorithms, by the names of the algorithms. */
function luaTable(): string {
  const written = [...files].filter(([, file]) => existsSync(join(root, `src/algorithms/${file}.lua`)))
  const nameOf = (file: string): string => file.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase())
  const imported = [...new Set(written.map(([, file]) => file))]
  const entries = written.map(([name, file]) => (name === nameOf(file) ? name : `${name}: ${nameOf(file)}`))
  return `${imported.map((file) => `import ${nameOf(file)} from './${file}.lua?raw'`).join('\n')}

const written: Readonly<Record<string, string>> = { ${entries.join(', ')} }
`
}

function stateTable(): string {
  const rows = inOrder.map(({ name, cells, entries }) => {
    const names = cells.map((cell) => cell.name).join(', ')
    return `| \`${name}\` | ${entries ? `${names}; entries` : names} | ${cells.length} number${cells.length === 1 ? '' : 's'} |`
  })
  return ['| algorithm | cells | state of a key |', '| --- | --- | --- |', ...rows].join('\n')
}

function optionTable(): string {
  const windows = inOrder.flatMap(({ name, windowOption: option }) =>
    option ? [`| \`${option.name}\` | \`${name}\` | duration | \`'${option.fallback}'\` | ${option.meaning} |`] : [],
  )
  const rows = inOrder.flatMap(({ name, options, optionFields }) =>
    options.map((option) => {
      const field = optionFields![option]!
      const { kind, least = 1, choices = [], meaning } = field
      const types = {
        count: `a whole number from ${least}`,
        duration: 'duration',
        flag: '`boolean`',
        choice: choices.map((each) => `\`'${each}'\``).join(', '),
        text: 'text',
      }
      return `| \`${option}\` | \`${name}\` | ${types[kind]} | \`${fallbackOf(field)}\` | ${meaning} |`
    }),
  )
  const head = ['| option | algorithm | type | default | meaning |', '| --- | --- | --- | --- | --- |']
  return [...head, ...rows, ...windows].join('\n')
}

function limitExamples(): string {
  const names = inOrder.map(({ name }) => name).toSorted()
  const half = Math.ceil(names.length / 2)
  const imports = [names.slice(0, half), names.slice(half)].map((part) => `import { ${part.join(', ')} } from 'sluice'`)
  const spacing = "spacing('2s')"
  const calls = inOrder.flatMap(({ name }) => (name === 'spacing' ? [spacing] : examplesOf(docOf(name))))
  return `\`\`\`ts\n${imports.join('\n')}\n\n${calls.join('\n')}\n\`\`\``
}

/** Adds a row for each algorithm that the table of choices does not have. Its sentence and its formula are then for the author. */
function withChoices(page: string): string {
  const rowOf = (name: string): RegExp => new RegExp(`^\\| \`${name}\`[^|]*\\|[^|]*\\|[^|]*\\| \\d+ +\\|$`, 'm')
  const missing = inOrder.filter(({ name }) => !rowOf(name).test(page))
  const rows = missing.map(({ name }) => {
    const [sentence] = sentencesOf(docOf(name)).split(/(?<=\.) /)
    const most = mostOf(name, worstAttack(name))
    return `| \`${name}\` | ${sentence!.replace(/\.$/, '')} | as measured | ${most} |\n`
  })
  return page.replace(/(^\| `exponential` .*\n)(?!\|)|(^\|.*\| \d+ +\|\n)(?!\|)/m, (last) => last + rows.join(''))
}

/** Replaces what is between two lines. */
function between(text: string, begin: string, end: string, content: string): string {
  const from = text.indexOf(begin)
  const to = text.indexOf(end, from)
  if (from === -1 || to === -1) throw new Error(`There is no "${begin}"`)
  return `${text.slice(0, from + begin.length)}\n\n${content}\n\n${text.slice(to)}`
}

function inPage(file: string, parts: Readonly<Record<string, string>>): string {
  let text = read(file)
  for (const [name, content] of Object.entries(parts))
    text = between(text, `<!-- written by \`npm run record\`: ${name} -->`, '<!-- end -->', content)
  return text
}

const BEGIN = '// `npm run record` writes the following part from the algorithms.'
const END = '// End of the part that `npm run record` writes.'

const written: Readonly<Record<string, () => string>> = {
  'src/engine/factories.ts': () =>
    between(read('src/engine/factories.ts'), BEGIN, END, plain.map(factoryOf).join('\n')),
  'src/algorithms/lua.ts': () => between(read('src/algorithms/lua.ts'), BEGIN, END, luaTable()),
  'rules.schema.json': () => JSON.stringify(rulesSchema(), null, 2),
  'docs/concepts/choosing-an-algorithm.md': () => withChoices(read('docs/concepts/choosing-an-algorithm.md')),
  'docs/concepts/algorithms.md': () => inPage('docs/concepts/algorithms.md', { state: stateTable() }),
  'docs/internals/redis-layout.md': () => inPage('docs/internals/redis-layout.md', { state: stateTable() }),
  'docs/reference/options.md': () =>
    inPage('docs/reference/options.md', { limits: limitExamples(), options: optionTable() }),
}

describe('what is written from the registry', () => {
  it.each(Object.entries(written))('%s is up to date', async (file, write) => {
    const path = join(root, file)
    const isJson = file.endsWith('.json')
    const text = isJson ? `${write()}\n` : await formatted(write(), path)
    await expect(text, 'npm run record').toMatchFileSnapshot(path)
  })
})

describe('every algorithm of the package', () => {
  it('is in the registry once, by its own name', () => {
    expect(builtIn.map(({ name }) => name).toSorted()).toEqual([...files.keys()].toSorted())
  })

  it.each(builtIn)('$name describes each of its options', ({ options, optionFields = {} }) => {
    expect(Object.keys(optionFields).toSorted()).toEqual([...options].toSorted())
  })
})
