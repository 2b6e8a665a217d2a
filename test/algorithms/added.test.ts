// Adds an algorithm in a copy of the repository: two files, and one line of the registry. After `npm run record`, everything has it.
import { appendFile, cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { node, root } from '../support/programs.ts'
import { redisForAll } from '../support/redis-tests.ts'

vi.setConfig({ testTimeout: 60_000, hookTimeout: 180_000 })

/** Windows on the clock, with some units more than the quota. */
const steps = `import type { Algorithm, LimitParameters, Outcome } from './algorithm.ts'
import { rescale } from './arithmetic.ts'
import { refuse, wholeNumber } from '../util/validate.ts'

type Name = 'units' | 'window'

function usedAt(params: LimitParameters<Name>, cells: Float64Array, offset: number, time: number): number {
  return cells[offset] === Math.floor(time / params.window) ? cells[offset + 1]! : 0
}

/** A clock that steps back does not leave the window. */
function timeOf(params: LimitParameters<Name>, cells: Float64Array, offset: number, now: number): number {
  return cells[offset + 1]! > 0 ? Math.max(now, cells[offset]! * params.window) : now
}

function step(params: LimitParameters<Name>, cells: Float64Array, offset: number, now: number, cost: number, out: Outcome): void {
  const time = timeOf(params, cells, offset, now)
  const used = usedAt(params, cells, offset, time)
  const number = Math.floor(time / params.window)
  const left = (number + 1) * params.window - now
  const allowed = cost === 0 || cost <= params.units - used
  const kept = allowed ? used + cost : used
  out.allowed = allowed
  out.at = time
  out.retry = allowed ? 0 : cost > params.units ? Infinity : left
  out.remaining = Math.max(0, params.units - kept)
  out.reset = kept > 0 ? left : 0
  out.delay = 0
  out.charged = cost
  out.persist = false
  out.next[0] = number
  out.next[1] = kept
}

const adjust: Algorithm<Name>['adjust'] = (params, cells, offset, now, chargedAt, units, out) => {
  const time = timeOf(params, cells, offset, now)
  const used = usedAt(params, cells, offset, time)
  const number = Math.floor(time / params.window)
  out.persist = units > 0 || (used > 0 && Math.floor(chargedAt / params.window) === number)
  out.next[0] = number
  out.next[1] = Math.max(0, used + units)
}

const convert: Algorithm<Name>['convert'] = (params, from, cells, offset, now, out) => {
  const before = rescale(now, params, from)
  const used = usedAt(from, cells, offset, timeOf(from, cells, offset, before))
  const start = Math.max(now, -rescale(-cells[offset]! * from.window, from, params))
  out.next[0] = used === 0 ? 0 : Math.floor(start / params.window)
  out.next[1] = Math.min(used, params.units)
}

/**
 * Counts in windows on the clock. Throws \`INVALID_OPTION\` or \`UNKNOWN_OPTION\`.
 * @example probe({ quota: 100, window: '1m', extra: 5 })
 */
export const probe: Algorithm<Name> = {
  name: 'probe',
  options: ['extra'],
  optionFields: { extra: { kind: 'count', least: 0, fallback: '0', meaning: 'Units in addition to the quota.' } },
  parameters: ['units', 'window'],
  cells: [{ name: 'place', ticks: 'window', newest: true }, { name: 'taken' }],
  initialState: [0, 0],
  deriveParameters: ({ quota, window, strict, own }) => {
    if (strict) refuse('strict', 'no strict, as a window on the clock ends anyway', true)
    return { units: quota + wholeNumber('extra', own['extra'] ?? 0, 0), window }
  },
  maxValue: ({ units }) => units,
  capacity: ({ units }) => units,
  step,
  adjust,
  convert,
}
`

const lua = `local function timeOf(params, cells, offset, now)
  return cells[offset + 2] > 0 and max(now, cells[offset + 1] * params.window) or now
end

local function usedAt(params, cells, offset, time)
  return cells[offset + 1] == floor(time / params.window) and cells[offset + 2] or 0
end

local function step(params, cells, offset, now, cost)
  local units, window = params.units, params.window
  local time = timeOf(params, cells, offset, now)
  local used = usedAt(params, cells, offset, time)
  local number = floor(time / window)
  local left = (number + 1) * window - now
  local allowed = cost == 0 or cost <= units - used
  local kept = allowed and used + cost or used
  local retry = allowed and 0 or cost > units and huge or left
  return allowed, time, retry, max(0, units - kept), kept > 0 and left or 0, 0, cost, false, number, kept
end

local function adjust(params, cells, offset, now, chargedAt, units)
  local time = timeOf(params, cells, offset, now)
  local used = usedAt(params, cells, offset, time)
  local number = floor(time / params.window)
  return units > 0 or (used > 0 and floor(chargedAt / params.window) == number), number, max(0, used + units)
end

local function convert(params, from, cells, offset, now)
  local before = rescale(now, params, from)
  local used = usedAt(from, cells, offset, timeOf(from, cells, offset, before))
  local start = max(now, -rescale(-cells[offset + 1] * from.window, from, params))
  return used == 0 and 0 or floor(start / params.window), min(used, params.units)
end

return { step = step, adjust = adjust, convert = convert }
`

const yaml = `policies:
  - name: api
    key: everyone
    limits:
      - { algorithm: probe, quota: 3, window: 1m, extra: 2 }
`

/** Makes random decisions, refunds and changes in memory, on Redis and in a row store. Prints how many there were and how many differ. */
const comparison = `
import { Redis } from 'ioredis'
import { createLimiter, memoryStore, probe } from 'sluice'
import { rowStore } from 'sluice/extend'
import { redisStore } from 'sluice/redis'
import { virtualClock } from 'sluice/testing'

const [url, seed] = process.argv.slice(2)
const clock = virtualClock()
const kept = new Map()
const database = {
  async transact(keys, change) {
    const { writes, result } = change(keys.map((key) => kept.get(key)), clock.now() * 1000)
    for (const { key, row } of writes) row === undefined ? kept.delete(key) : kept.set(key, row)
    return result
  },
}
const redis = new Redis(url)
const stores = [memoryStore({ clock }), redisStore(redis, { clock, prefix: 'added:' }), rowStore(database, { clock })]
let random = Number(seed)
const below = (limit) => (random = (random * 48271) % 2147483647) % limit
const versions = [probe({ name: 'n', quota: 3, window: '1s', extra: 2 }), probe({ name: 'n', quota: 6, window: '700ms' })]
const limiters = stores.map((store) => versions.map((limits) => createLimiter({ name: 'same', keyer: (key) => key, limits, store, shared: true })))
const earlier = []
const results = { steps: 0, allowed: 0, denied: 0, different: 0 }
for (let i = 0; i < 400; i++) {
  clock.advance(below(3) === 0 ? below(900) : below(30))
  const [version, key, cost, kind] = [below(20) === 0 ? 1 : 0, 'k' + below(3), below(4), below(6)]
  const which = earlier[below(earlier.length || 1)]
  const answers = await Promise.all(limiters.map(async (each, store) => {
    if (kind === 0 && which !== undefined) return void (await each[which.version].refund(which.decisions[store]))
    return each[version].consume(key, { cost })
  }))
  if (answers[0] !== undefined) {
    earlier.push({ version, decisions: answers })
    results[answers[0].allowed ? 'allowed' : 'denied']++
  }
  const [memory, ...others] = answers.map((each) => JSON.stringify(each?.limits))
  results.steps++
  if (others.some((each) => each !== memory)) results.different++
}
const real = createLimiter({ name: 'inspected', keyer: (key) => key, limits: versions[0], store: redisStore(redis) })
await real.consume('me', { cost: 2 })
await redis.quit()
console.log(JSON.stringify(results))
`

const types = `import { probe, type ProbeOptions } from 'sluice'
const options: ProbeOptions = { quota: 1, window: '1s', extra: 1 }
probe(options)
// @ts-expect-error extra is a number
probe({ quota: 1, window: '1s', extra: 'one' })
// @ts-expect-error there is no burst
probe({ quota: 1, window: '1s', burst: 1 })
`

/** What a bundler, a test or the site reads, as one program for Node. */
const playground = `import { build } from 'esbuild'
const [entry, outfile] = process.argv.slice(2)
await build({ entryPoints: [entry], outfile, bundle: true, format: 'esm', platform: 'node', alias: { sluice: process.cwd() + '/src/index.ts' } })
const { algorithms } = await import(outfile)
console.log(JSON.stringify(algorithms.probe))
`

describe('an algorithm that was added', () => {
  const redis = redisForAll()
  let copy: string
  let recorded: string

  const run = (...args: readonly string[]): Promise<string> => node(copy, ...args)
  const sluice = (...args: readonly string[]): Promise<string> => run('dist/src/cli/sluice.js', ...args)
  const text = (file: string): Promise<string> => readFile(join(copy, file), 'utf8')

  beforeAll(async () => {
    copy = await mkdtemp(join(tmpdir(), 'sluice-added-'))
    const parts = ['src', 'adapters', 'bench', 'docs', 'examples', 'test', 'ARCHITECTURE.md', 'CONTRIBUTING.md']
    const files = [
      'package.json',
      'package-lock.json',
      'rules.schema.json',
      'vitest.config.ts',
      '.prettierrc',
      'tsconfig.json',
    ]
    for (const part of [...parts, ...files, 'build'])
      await cp(join(root, part), join(copy, part), {
        recursive: true,
        filter: (source) =>
          !/node_modules|[\\/](?:img|results)$|[\\/]\.vitepress[\\/](cache|dist)/.test(source.slice(root.length)),
      })
    await symlink(join(root, 'node_modules'), join(copy, 'node_modules'), 'junction')
    await writeFile(join(copy, 'src/algorithms/probe.ts'), steps)
    await writeFile(join(copy, 'src/algorithms/probe.lua'), lua)
    await appendFile(join(copy, 'src/algorithms/registry.ts'), "export { probe } from './probe.ts'\n")
    const manifest = JSON.parse(await text('package.json')) as { scripts: { record: string } }
    const [, command] = manifest.scripts.record.split(/^vitest /)
    recorded = await run('node_modules/vitest/vitest.mjs', ...command!.split(' '))
    expect(await run('build/build.mjs')).toBe('')
  })
  afterAll(() => rm(copy, { recursive: true, force: true }))

  it('is written where a program cannot read the registry', () => {
    expect(recorded).toMatch(/Snapshots .*7 updated/)
  })

  it('is exported by the package, with the types of its options', async () => {
    await mkdir(join(copy, 'typed'))
    await writeFile(join(copy, 'typed/program.ts'), types)
    await writeFile(
      join(copy, 'typed/tsconfig.json'),
      JSON.stringify({
        extends: '../tsconfig.json',
        compilerOptions: { outDir: '../dist/typed', rootDir: '.' },
        include: ['.'],
      }),
    )
    expect(await run('node_modules/typescript/bin/tsc', '-p', 'typed')).toBe('')
  })

  it('is accepted by rules in YAML, with its own options only', async () => {
    await writeFile(join(copy, 'rules.yaml'), yaml)
    await writeFile(join(copy, 'wrong.yaml'), yaml.replace('extra: 2', 'extra: two, burst: 3'))
    expect(await sluice('rules', 'check', 'rules.yaml')).not.toMatch(/expected|unknown/i)
    const wrong = await sluice('rules', 'check', 'wrong.yaml')
    expect(wrong).toMatch(/limits\[0\]\.extra\b.*whole number from 0/)
    expect(wrong).toMatch(/limits\[0\]\.burst/)
  })

  it('is in the JSON schema, as a function and as a file', async () => {
    const print = "import { rulesSchema } from 'sluice/rules'\nconsole.log(JSON.stringify(rulesSchema()))"
    const schema = await run('--input-type=module', '-e', print)
    expect(schema).toContain('Units in addition to the quota. Default: 0.')
    expect(schema).toMatch(/"probe"/)
    expect(JSON.parse(await text('rules.schema.json'))).toEqual(JSON.parse(schema))
  })

  it('is in the playground, with its options', async () => {
    await writeFile(join(copy, 'playground.mjs'), playground)
    const outfile = join(copy, 'dist/playground.mjs')
    const fields = JSON.parse(await run('playground.mjs', 'docs/site/playground/catalog.ts', outfile)) as unknown
    expect(fields).toEqual([
      { name: 'quota', kind: 'number' },
      { name: 'window', kind: 'duration' },
      { name: 'extra', kind: 'number', fallback: '0' },
    ])
  })

  it('decides the same in memory, on Redis and in a row store, and inspect reports it', async () => {
    await writeFile(join(copy, 'comparison.mjs'), comparison)
    const seed = 1 + Math.floor(Math.random() * 1e6)
    const output = await run('comparison.mjs', redis.server.url, String(seed))
    const results = JSON.parse(output.split('\n')[0]!) as Record<string, number>
    expect({ seed, ...results }).toMatchObject({ seed, steps: 400, different: 0 })
    expect(Math.min(results['allowed']!, results['denied']!)).toBeGreaterThan(20)
    const inspected = await sluice('inspect', redis.server.url, 'inspected', 'me', '--raw')
    expect(inspected).toMatch(/probe/)
    expect(inspected).toMatch(/place .*taken 2/)
  })

  it('is a limit of `replay`, and of the comparison there', async () => {
    await writeFile(
      join(copy, 'access.log'),
      '192.0.2.1 - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 1\n'.repeat(9),
    )
    const output = await sluice('replay', 'access.log', '--limit', 'probe 3/1m extra=2', '--compare')
    expect(output).toMatch(/probe 3\/1m extra=2/)
    expect(await sluice('replay', 'access.log', '--limit', 'gcra 3/1m', '--compare')).toMatch(/probe/)
  })

  it('is in the tables of the docs', async () => {
    const state = /^\| `probe` +\| place, taken +\| 2 numbers +\|$/m
    expect(await text('docs/concepts/algorithms.md')).toMatch(state)
    expect(await text('docs/concepts/choosing-an-algorithm.md')).toMatch(
      /^\| `probe` +\| Counts in windows on the clock +\|.*\| 20 +\|$/m,
    )
    expect(await text('docs/internals/redis-layout.md')).toMatch(state)
    const options = await text('docs/reference/options.md')
    expect(options).toMatch(
      /^\| `extra` +\| `probe` +\| a whole number from 0 +\| `0` +\| Units in addition to the quota\. +\|$/m,
    )
    expect(options).toMatch(/^import \{.*\bprobe\b.*\} from 'sluice'$/m)
    expect(options).toContain("\nprobe({ quota: 100, window: '1m', extra: 5 })\n")
  })

  it('is in the benchmarks', async () => {
    const list = `
      const [{ algorithms }, { subjects }] = [await import('./bench/memory/limits.mjs'), await import('./bench/accuracy/subjects.mjs')]
      const sluice = await import('sluice')
      console.log([algorithms.probe.admitted, algorithms.probe.denied, subjects.probe].map((make) => make(sluice).algorithm).join())`
    expect(await run('--input-type=module', '-e', list)).toBe('probe,probe,probe\n')
  })

  it('is tested by the suites of algorithms, and by the search for its worst case', async () => {
    const files = ['test/algorithms/lua.test.ts', 'test/algorithms/contract.test.ts', 'test/docs/algorithms.test.ts']
    const output = await run('node_modules/vitest/vitest.mjs', 'run', ...files, '-t', 'probe', '--reporter=verbose')
    expect(output).not.toMatch(/FAIL/)
    for (const file of files) expect(output).toMatch(new RegExp(`✓.*${file}.*probe`))
  })
})
