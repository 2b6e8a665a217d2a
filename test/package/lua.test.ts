// Checks the Lua of the package with luacheck: by itself the scripts, and as one text the program of the store. `npm run lint` runs this.
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { programFor } from '../../src/stores/redis/library.ts'
import { programPath } from '../support/debian.ts'
import { root } from '../support/programs.ts'

/** It is JavaScript without types. */
const { shortLua } = (await import(new URL('../../build/texts.mjs', import.meta.url).href)) as {
  shortLua(text: string): string
}

const { library } = programFor([])
const names = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
const paths = names.filter((name) => name.endsWith('.lua')).map((name) => `src/${name.replaceAll('\\', '/')}`)
const files = new Map(paths.map((path) => [path, readFileSync(join(root, path), 'utf8')]))
const isInProgram = (path: string): boolean => library.includes(shortLua(files.get(path)!))

/** Returns what luacheck reports about a text: the line, the code and a sentence. */
async function luacheck(text: string, ...options: readonly string[]): Promise<{ line: number; problem: string }[]> {
  const missing =
    'The Lua of the package is checked with luacheck: put it on the PATH, such as with `apt-get install lua-check`.'
  const program = programPath('command -v luacheck', 'lua-check', missing)
  const args = ['--no-color', '--no-cache', '--codes', '--formatter', 'plain', '-', ...options]
  const output = await new Promise<string>((resolve, reject) => {
    const child = execFile(program, args, { cwd: root }, (error, stdout, stderr) => {
      // 1 stands for warnings, 2 for errors of syntax.
      if (error === null || error.code === 1 || error.code === 2) resolve(stdout)
      else reject(new Error(`luacheck did not run: ${stdout}${stderr}`, { cause: error }))
    })
    child.stdin!.end(text)
  })
  const reports = output.split('\n').filter((line) => line !== '')
  return reports.map((report) => {
    const [, line, problem] = /^stdin:(\d+):\d+: (.*)$/.exec(report) ?? []
    if (problem === undefined) throw new Error(`luacheck reports what has no line: ${report}`)
    return { line: Number(line), problem }
  })
}

/** Returns what is wrong with the program, by the files that it is made of, with a change to each of them. */
async function problemsInProgram(change = (text: string, _path: string): string => text): Promise<string[]> {
  let text = library
  const parts = paths.filter(isInProgram).map((path) => {
    const part = change(files.get(path)!, path)
    text = text.replaceAll(shortLua(files.get(path)!), () => part)
    return { path, part }
  })
  // A part is there as often as something is built around it.
  const lineAt = (at: number): number => text.slice(0, at).split('\n').length
  const places = parts.flatMap(({ path, part }) => {
    const starts: number[] = []
    for (let at = text.indexOf(part); at !== -1; at = text.indexOf(part, at + 1)) starts.push(lineAt(at))
    return starts.map((start) => ({ path, start, end: start + part.split('\n').length - 1 }))
  })
  const found = (await luacheck(text, '--not-globals', 'KEYS', 'ARGV')).map(({ line, problem }) => {
    const place = places.find(({ start, end }) => line >= start && line < end)
    return place === undefined ? `library.ts: ${problem}` : `${place.path}:${line - place.start + 1}: ${problem}`
  })
  return [...new Set(found)]
}

describe('the program of the store for Redis', () => {
  it('has most of the Lua', () => {
    expect(paths.filter((path) => !isInProgram(path))).toEqual([
      'src/rules/redis/stored.lua',
      'src/stores/redis/stored.lua',
      'src/stores/redis/texts.lua',
    ])
  })

  it('reaches Redis without comments, and its lines keep their numbers', () => {
    expect(library).not.toMatch(/^ *--/m)
    for (const text of files.values()) {
      const [lines, short] = [text.split('\n'), shortLua(text).split('\n')]
      expect(short).toEqual(lines.map((line) => (line.trim().startsWith('--') ? '' : line.trim())))
    }
  })

  it('has no undefined global, no unused variable, and nothing else that luacheck reports', async () => {
    expect(await problemsInProgram()).toEqual([])
  })

  it('is checked in each file', async () => {
    const problems = await problemsInProgram((text) => `do local spare end\n${text}`)
    const expected = paths.filter(isInProgram).map((path) => `${path}:1: (W211) unused variable 'spare'`)
    expect(problems.toSorted()).toEqual(expected.toSorted())
  })

  it.each([
    ['an undefined global', 'local drained = nw > last', "undefined variable 'nw'"],
    ['a global that is set', 'drained = now > last', "setting non-standard global variable 'drained'"],
    [
      'arguments of a script in a function',
      'local drained = now > ARGV[1] and now > last',
      "undefined variable 'ARGV'",
    ],
    [
      'a field that math does not have',
      'local drained = math.round(now) > last',
      "undefined field 'round' of global 'math'",
    ],
    ['an error of syntax', 'local drained = = now > last', "expected expression near '='"],
  ])('may not have %s', async (_, line, problem) => {
    const problems = await problemsInProgram((text, path) =>
      path === 'src/algorithms/gcra.lua' ? text.replace('local drained = now > last', line) : text,
    )
    expect(problems[0]).toMatch(/^src\/algorithms\/gcra\.lua:5: /)
    expect(problems[0]).toContain(problem)
  })
})

describe('a script', () => {
  it.each(paths.filter((path) => !isInProgram(path)))('%s has nothing that luacheck reports', async (path) => {
    expect(await luacheck(files.get(path)!)).toEqual([])
  })

  it('may use what Redis and Valkey define', async () => {
    const used = ['redis.call', 'server.call', 'cjson.decode', 'cmsgpack.pack', 'struct.pack', 'bit.band', 'math.floor']
    expect(await luacheck(`return { KEYS[1], ARGV[1], ${used.join(', ')} }\n`)).toEqual([])
    for (const name of ['print', 'require', 'io', 'os', 'loadstring'])
      expect(await luacheck(`return ${name}\n`)).toEqual([
        { line: 1, problem: `(W113) accessing undefined variable '${name}'` },
      ])
  })
})
