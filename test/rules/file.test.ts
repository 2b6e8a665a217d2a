import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  cpSync,
  mkdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Duration } from '../../src/index.ts'
import { fixedWindow } from '../../src/algorithms/fixed-window.ts'
import { defineAlgorithm } from '../../src/extend.ts'
import { warningsOf } from '../support/http.ts'
import { builtPackage } from '../support/built.ts'
import { folder, quotaOf, seen, type Watched, watched, yaml } from '../support/rules-file.ts'

/** A file with a quota of 1, watched. */
async function started(
  pollInterval: Duration = '100ms',
): Promise<Watched & { readonly path: string; readonly home: string }> {
  const home = folder()
  const path = join(home, 'rules.yaml')
  writeFileSync(path, yaml(1))
  return { ...(await watched(path, { pollInterval })), path, home }
}

it('compiles a document once, and one with mistakes once', async () => {
  let compiled = 0
  defineAlgorithm({
    ...fixedWindow,
    name: 'counted',
    deriveParameters(input) {
      compiled++
      return fixedWindow.deriveParameters(input)
    },
  })
  const text = (quota: number): string => yaml(quota).replace('quota', 'algorithm: counted, quota')
  const path = join(folder(), 'rules.yaml')
  writeFileSync(path, text(1))
  const file = await watched(path, { pollInterval: '20ms' })
  const once = compiled
  writeFileSync(path, text(2))
  expect(await seen(file, 1)).toEqual(['1 → 2'])
  expect(compiled).toBe(2 * once)
  writeFileSync(path, `${text(3)}    overrides: [{ key: ann, limits: [{}] }]\n`)
  expect(await seen(file, 2)).toEqual(['1 → 2', expect.stringContaining('expected an address')])
  expect(compiled).toBe(3 * once)
})

describe('rulesFromFile notices', () => {
  it('a file that is written in two halves with a pause, without a report of the first', async () => {
    const file = await started()
    const text = yaml(2)
    const half = text.indexOf('quota')
    writeFileSync(file.path, text.slice(0, half))
    await pause(500)
    appendFileSync(file.path, text.slice(half))
    expect(await seen(file, 1)).toEqual(['1 → 2'])
  })

  it('a file that is deleted and made again soon', async () => {
    const file = await started()
    unlinkSync(file.path)
    await pause(300)
    writeFileSync(file.path, yaml(2))
    expect(await seen(file, 1)).toEqual(['1 → 2'])
  })

  it('a file that is gone for long: it is unreachable once, and the current rules stay', async () => {
    const file = await started()
    const codes = await warningsOf(async () => {
      unlinkSync(file.path)
      expect(await seen(file, 1)).toEqual([expect.stringContaining('ENOENT')])
    })
    expect(codes).toEqual(['SLUICE_RULES_UNREACHABLE'])
    expect(quotaOf(file.rules)).toBe(1)
    writeFileSync(file.path, yaml(1))
    await pause(600)
    expect(file.events).toHaveLength(1)
    unlinkSync(file.path)
    await seen(file, 2)
    writeFileSync(file.path, yaml(2))
    expect(await seen(file, 3)).toEqual([expect.anything(), expect.stringContaining('ENOENT'), '1 → 2'])
  })

  it('a link that Kubernetes swaps', async () => {
    const home = folder()
    for (const quota of [1, 2]) {
      mkdirSync(join(home, `..2026_0${quota}`))
      writeFileSync(join(home, `..2026_0${quota}`, 'rules.yaml'), yaml(quota))
    }
    symlinkSync('..2026_01', join(home, '..data'))
    symlinkSync(join('..data', 'rules.yaml'), join(home, 'rules.yaml'))
    const file = await watched(join(home, 'rules.yaml'), { pollInterval: '100ms' })
    symlinkSync('..2026_02', join(home, '..data_tmp'))
    renameSync(join(home, '..data_tmp'), join(home, '..data'))
    rmSync(join(home, '..2026_01'), { recursive: true })
    expect(await seen(file, 1)).toEqual(['1 → 2'])
  })

  it('what an editor does: a swap file, a backup, a new file', async () => {
    const file = await started()
    writeFileSync(join(file.home, '.rules.yaml.swp'), 'b0VIM 9.0')
    writeFileSync(join(file.home, '4913'), '')
    unlinkSync(join(file.home, '4913'))
    renameSync(file.path, `${file.path}~`)
    writeFileSync(file.path, yaml(2))
    unlinkSync(`${file.path}~`)
    unlinkSync(join(file.home, '.rules.yaml.swp'))
    expect(await seen(file, 1)).toEqual(['1 → 2'])
  })

  it('a directory that is replaced', async () => {
    const home = folder()
    const config = join(home, 'config')
    mkdirSync(config)
    writeFileSync(join(config, 'rules.yaml'), yaml(1))
    const file = await watched(join(config, 'rules.yaml'))
    mkdirSync(join(home, 'next'))
    writeFileSync(join(home, 'next', 'rules.yaml'), yaml(2))
    rmSync(config, { recursive: true })
    renameSync(join(home, 'next'), config)
    expect(await seen(file, 1)).toEqual(['1 → 2'])
  })

  it('a link to a file elsewhere that is written in place', async () => {
    const [here, elsewhere] = [folder(), folder()]
    writeFileSync(join(elsewhere, 'real.yaml'), yaml(1))
    symlinkSync(join(elsewhere, 'real.yaml'), join(here, 'rules.yaml'))
    const file = await watched(join(here, 'rules.yaml'))
    writeFileSync(join(elsewhere, 'real.yaml'), yaml(2))
    expect(await seen(file, 1)).toEqual(['1 → 2'])
  })

  it('no change in a touch, another comment, or the same file again', async () => {
    const file = await started()
    utimesSync(file.path, new Date(), new Date())
    await pause(400)
    writeFileSync(file.path, `${yaml(1)}# another comment\n`)
    await pause(400)
    cpSync(file.path, `${file.path}.copy`)
    renameSync(`${file.path}.copy`, file.path)
    await pause(400)
    expect(file.events).toEqual([])
    expect(file.rules.current.version).toBe(1)
  })
})

describe('rulesFromFile keeps the last good rules', () => {
  it('while the file has mistakes, and reports them once with their lines', async () => {
    const file = await started()
    const codes = await warningsOf(async () => {
      writeFileSync(file.path, 'policies: [\n')
      await seen(file, 1)
    })
    expect(codes).toEqual(['SLUICE_RULES_INVALID'])
    expect(file.events[0]).toMatch(/^PATH:2:1: /)
    writeFileSync(file.path, yaml(1).replace('quota', 'qouta'))
    expect((await seen(file, 2))[1]).toMatch(
      /^PATH:6: policies\[0\]\.limits\[0\]\.qouta: .*Did you mean "quota"\?\nPATH:6: /,
    )
    expect(quotaOf(file.rules)).toBe(1)
    writeFileSync(file.path, yaml(2))
    expect((await seen(file, 3)).slice(2)).toEqual(['1 → 2'])
  })

  it('while the file is too large, no text, or a directory', async () => {
    const file = await started()
    writeFileSync(file.path, yaml(1).padEnd(2 ** 20 + 1, '#'))
    await seen(file, 1)
    writeFileSync(file.path, Buffer.from([0x70, 0xff, 0xfe]))
    await seen(file, 2)
    unlinkSync(file.path)
    mkdirSync(file.path)
    expect(await seen(file, 3)).toEqual([
      expect.stringMatching(/^PATH: expected at most 128 KiB of YAML, got more/),
      'PATH: expected a text in UTF-8',
      expect.stringContaining('is not a file'),
    ])
    expect(quotaOf(file.rules)).toBe(1)
  })
})

describe('rulesFromFile and its process', () => {
  let built: string
  beforeAll(async () => {
    built = await builtPackage()
  }, 60_000)

  it.each(['', 'await rules.close()'])('lets it end: %s', (end) => {
    const path = join(folder(), 'rules.yaml')
    writeFileSync(path, yaml(1))
    const entry = pathToFileURL(join(built, 'src', 'rules', 'index.js')).href
    const program = `
      import { rulesFromFile } from ${JSON.stringify(entry)}
      const rules = await rulesFromFile(${JSON.stringify(path)})
      ${end}
      process.on('exit', () => console.log(rules.current.policies.length))`
    const words = ['--input-type=module', '--eval', program]
    expect(execFileSync(process.execPath, words, { encoding: 'utf8', timeout: 20_000 })).toBe('1\n')
  })

  it('reports nothing after close', async () => {
    const file = await started('50ms')
    writeFileSync(file.path, yaml(2))
    await file.rules.close()
    await pause(500)
    expect([file.events, quotaOf(file.rules)]).toEqual([[], 1])
  })
})
