import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { describe, expect, it } from 'vitest'
import { rulesFromFile } from '../../src/rules/index.ts'
import { folder, json, quotaOf, seen, watched, yaml } from '../support/rules-file.ts'

describe('rulesFromFile reads', () => {
  it.each([
    ['rules.yaml', yaml(7)],
    ['rules.yml', yaml(7)],
    ['rules.json', json(7)],
    ['RULES.JSON', `\uFEFF${json(7)}`],
  ])('%s', async (name, text) => {
    const path = join(folder(), name)
    writeFileSync(path, text)
    const { rules } = await watched(path)
    expect(quotaOf(rules)).toBe(7)
    expect(quotaOf((await watched(pathToFileURL(path))).rules)).toBe(7)
  })

  it.each(['rules', 'rules.txt', 'yaml', 7])('no file named %s', async (name) => {
    await expect(rulesFromFile(name as string)).rejects.toMatchObject({ code: 'INVALID_OPTION' })
  })

  it('its own options, and refuses wrong ones', async () => {
    await expect(rulesFromFile('a.json', { pollInterval: 'often' as '1s' })).rejects.toMatchObject({
      code: 'INVALID_OPTION',
    })
    await expect(rulesFromFile('a.json', { polInterval: 1 } as object)).rejects.toMatchObject({
      code: 'UNKNOWN_OPTION',
      message: expect.stringMatching(/^rulesFromFile has no option .*Did you mean "pollInterval"\?/) as string,
    })
    await expect(rulesFromFile('a.json', null as never)).rejects.toMatchObject({ code: 'INVALID_OPTION' })
  })
})

describe('rulesFromFile at the start', () => {
  it('rejects at once without a file, and with one that has mistakes', async () => {
    const path = join(folder(), 'rules.json')
    await expect(rulesFromFile(path)).rejects.toMatchObject({ code: 'RULES_UNREACHABLE' })
    writeFileSync(path, '{')
    await expect(rulesFromFile(path)).rejects.toMatchObject({
      code: 'INVALID_RULES',
      message: expect.stringContaining(`  ${path}: expected JSON. `),
    })
    writeFileSync(path, `{\n"policies": [\n{ "name": "a" }]}`)
    await expect(rulesFromFile(path)).rejects.toMatchObject({
      message: expect.stringContaining(`\n  ${path}:3: policies[0].key: expected a value, got nothing\n`),
      cause: [
        { path: 'policies[0].key', file: path, line: 3 },
        { path: 'policies[0].limits', file: path, line: 3 },
      ],
    })
  })

  it('waits for a file that is being written', async () => {
    const path = join(folder(), 'rules.yaml')
    writeFileSync(path, yaml(9).slice(0, 60))
    const starting = rulesFromFile(path)
    await pause(400)
    writeFileSync(path, yaml(9))
    const rules = await starting
    await rules.close()
    expect(quotaOf(rules)).toBe(9)
  })

  it('begins with the fallback, and takes the file once it is there', async () => {
    const path = join(folder(), 'rules.json')
    const file = await watched(path, { fallback: JSON.parse(json(5)) as never })
    expect([quotaOf(file.rules), file.rules.current.version]).toEqual([5, 0])
    await seen(file, 1)
    writeFileSync(path, json(6))
    expect(await seen(file, 2)).toEqual([expect.stringContaining('ENOENT'), '5 → 6'])
  })
})
