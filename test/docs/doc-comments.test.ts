// Checks what an editor shows about every public name: its doc-comment, those of its members, and that the examples compile.
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { builtPackage } from '../support/built.ts'
import { bareMembers, type Declaration, entries, examplesIn, exportsOf } from '../support/doc-comments.ts'
import { node, root } from '../support/programs.ts'

const named = ({ name, file }: Declaration): string => `${name} of ${file}`

/** All public names, each once, with the module that has it. */
const declarations = new Map<string, readonly [Declaration, module: string]>()
for (const [module, file] of entries)
  for (const each of exportsOf(file)) if (!declarations.has(named(each))) declarations.set(named(each), [each, module])

/** Returns the names of the declarations for which a check fails. */
function failing(isWrong: (declaration: Declaration) => boolean): string[] {
  return [...declarations.values()].filter(([each]) => isWrong(each)).map(([each]) => named(each))
}

/** What a function calls that checks its arguments. */
const THROWS = /\b(refuse|knownOptions|oneOf|milliseconds|wholeNumber|validate\w*)\(|\bthrow new /

const isValue = ({ kind }: Declaration): boolean => kind === 'function' || kind === 'const' || kind === 'class'

describe('doc-comments', () => {
  it('are read from every module of the package', () => {
    expect(declarations.size).toBeGreaterThan(250)
    const names = [...declarations.keys()]
    expect(names).toContain('createLimiter of src/limiter/limiter.ts')
    expect(names).toContain('rateLimit of adapters/hono/index.ts')
    expect(names).toContain('RedisClient of src/stores/redis/clients.ts')
  })

  it('describe every public name', () => {
    expect(failing(({ comment }) => comment === '')).toEqual([])
  })

  it('describe every member of public interfaces and classes', () => {
    const bare = [...declarations.values()].map(([each]) => [named(each), bareMembers(each)] as const)
    expect(Object.fromEntries(bare.filter(([, members]) => members.length > 0))).toEqual({})
  })

  it('have an example for every function, constant and class', () => {
    expect(failing((each) => isValue(each) && examplesIn(each.comment).length === 0)).toEqual([])
  })

  it('say what a function throws that checks its arguments', () => {
    const isSilent = ({ kind, comment, body }: Declaration): boolean =>
      kind === 'function' && THROWS.test(body) && !/\b(throws|rejects)\b/i.test(comment)
    expect(failing(isSilent)).toEqual([])
  })
})

/** What examples use of the package without an import, and may not be of type `any`. */
const given = `
import type { Decision, Limit, Limiter } from 'sluice'

declare global {
  interface User {
    readonly id: string
  }
  const user: User
  const limiter: Limiter<User, Decision>
  const perUser: Limiter<User>
  const perResource: Limiter<User>
  const decision: Decision
  const limits: Limit
  const keyer: () => string
}
`

/** Names of the application, and of other packages, that examples use without an import. */
const foreign = new Set(
  (
    'algorithm adapter answer app behaviours byTenant byUser client coolDown counter createServer decisions document edited greet ' +
    'handle harness isAdmin isSpam message notifications options readRules redis request response rules runs server socket sockets ' +
    'store test tightened upstream usage usageOf writeFileSync ' +
    'Bun ConfigModule ConfigService Deno Hono IncomingMessage Koa Redis RequestListener ServerResponse ServiceUnavailableException ' +
    'Users express config'
  ).split(' '),
)

/** Returns an example as a module that compiles against the package. */
function moduleOf(example: string, own: string): string {
  const imports = new Map<string, string>()
  for (const [{ name, kind }, module] of declarations.values()) {
    const isUsed = new RegExp(String.raw`(?<![.\w'])${name}\b(?!:)`).test(example)
    const isDeclared = new RegExp(String.raw`\b(const|class|function|interface) ${name}\b|\bimport .*\b${name}\b`).test(
      example,
    )
    if (isUsed && !isDeclared && (module === own || !imports.has(name)))
      imports.set(name, `import { ${kind === 'interface' || kind === 'type' ? 'type ' : ''}${name} } from '${module}'`)
  }
  // A function around it, for `return` and `await`.
  const code = example.startsWith('{') ? `return (${example})` : example
  return [
    ...imports.values(),
    'export async function example(): Promise<unknown> {',
    code,
    'return undefined',
    '}',
  ].join('\n')
}

/** Returns the errors of the compiler, without those about names of the application and about types that follow from them. */
function mistakesIn(output: string): string[] {
  const follows = /error TS(7006|7031|1232|1184):/
  return output
    .split('\n')
    .filter((line) => line.startsWith('sluice') && !follows.test(line))
    .filter((line) => {
      const name =
        /Cannot find (?:name|namespace) '(\w+)'|No value exists in scope for the shorthand property '(\w+)'/.exec(line)
      return name === null || !foreign.has((name[1] ?? name[2])!)
    })
}

/** Compiles examples, and returns the mistakes. */
async function compileExamples(examples: readonly (readonly [name: string, code: string])[]): Promise<string[]> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-comments-'))
  // The compiler reads its types, and does not check all sources again.
  const built = await builtPackage()
  try {
    await symlink(join(root, 'node_modules'), join(folder, 'node_modules'), 'junction')
    await writeFile(join(folder, 'package.json'), '{ "type": "module" }')
    await writeFile(join(folder, 'given.d.ts'), given)
    for (const [name, code] of examples) await writeFile(join(folder, `${name}.ts`), code)
    const compilerOptions = {
      noEmit: true,
      rootDir: '/',
      types: ['node'],
      isolatedDeclarations: false,
      experimentalDecorators: true,
      erasableSyntaxOnly: false,
      noImplicitReturns: false,
      noUnusedLocals: false,
      noUnusedParameters: false,
      paths: Object.fromEntries(
        [...entries].map(([module, file]) => [module, [join(built, file.replace(/\.ts$/, '.d.ts'))]]),
      ),
    }
    const config = { extends: join(root, 'tsconfig.json'), compilerOptions, include: ['.'] }
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config))
    return mistakesIn(await node(folder, join(root, 'node_modules/typescript/bin/tsc'), '--pretty', 'false', '-p', '.'))
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

describe('the examples in doc-comments', { timeout: 240_000 }, () => {
  const written = [...declarations.values()].flatMap(([{ name, comment, body }, module]) =>
    examplesIn(comment + body)
      .filter((example) => !example.startsWith('see '))
      .map((code, i) => [`${module.replace('/', '-')}-${name}-${i + 1}`, moduleOf(code, module)] as const),
  )

  it('compile', async () => {
    expect(written.length).toBeGreaterThan(90)
    expect(await compileExamples(written)).toEqual([])
  })
})
