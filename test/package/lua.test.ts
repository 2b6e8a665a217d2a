// Checks the Lua of the package with luacheck: by itself the scripts, and as one text the program of the store.
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { programFor } from '../../src/stores/redis/library.ts'
import { programPath } from '../support/debian.ts'
import { root } from '../support/programs.ts'
import { redisForAll } from '../support/redis-tests.ts'

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

/** Returns what is wrong with the program, by the files that it is made of. */
async function problemsInProgram(): Promise<string[]> {
  let text = library
  const parts = paths.filter(isInProgram).map((path) => {
    const part = files.get(path)!
    text = text.replaceAll(shortLua(part), () => part)
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
})

describe('a script', () => {
  it.each(paths.filter((path) => !isInProgram(path)))('%s has nothing that luacheck reports', async (path) => {
    expect(await luacheck(files.get(path)!)).toEqual([])
  })
})

describe('.luacheckrc', () => {
  const redis = redisForAll()

  it('has no global that Redis does not have', async () => {
    const [, list] = /read_globals = \{([^]*)\n {2}\}/.exec(readFileSync(join(root, '.luacheckrc'), 'utf8'))!
    const plain = list!.replace(/\w+ = fields\([^)]*\)/g, '')
    // Only Valkey has `server`.
    const names = [...plain.matchAll(/'(\w+)'/g)].map(([, name]) => name!).filter((name) => name !== 'server')
    const missing = await redis.client.eval(
      `local missing = {}
       for _, name in ipairs(ARGV) do if rawget(_G, name) == nil then missing[#missing + 1] = name end end
       return missing`,
      0,
      ...names,
    )
    expect(missing).toEqual([])
    expect(names.length).toBeGreaterThan(20)
  })
})
