// Checks docs/comparison.md: each cell of its tables is a link to evidence, and each figure is what the tests measure, or what
// `bench/results/latest.json` contains. The packages run with their default options, unless a name says otherwise.
//
// `SLUICE_RECORD=comparison npx vitest run test/docs/comparison.test.ts` writes the figures.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { ThrottlerStorageService } from '@nestjs/throttler'
import { Ratelimit } from '@upstash/ratelimit'
import { Redis } from '@upstash/redis'
import { build } from 'esbuild'
import express from 'express'
import { MemoryStore as ExpressStore, rateLimit } from 'express-rate-limit'
import { MemoryStore as HonoStore } from 'hono-rate-limiter'
import { RateLimiterMemory, RateLimiterUnion } from 'rate-limiter-flexible'
import supertest from 'supertest'
import { afterEach, describe, expect, it, vi } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { createLimiter, gcra, type Limit, memoryStore } from '../../src/index.ts'
import { sizeOf } from '../support/bundle-sizes.ts'
import { packedPackage } from '../support/package-projects.ts'
import { isDead, readPage, writePage } from '../support/pages.ts'
import { blocksOf, root } from '../support/programs.ts'
import { builtPackage } from '../support/built.ts'
import { upstashForAll } from '../support/redis-tests.ts'

vi.setConfig({ testTimeout: 60_000 })

const require = createRequire(import.meta.url)
const PAGE = 'docs/comparison.md'
const page = (): string => readPage(PAGE)

type Cells = readonly string[]

/** The part of the page that compares programs, up to the next part. */
const TASKS = /^## Seven tasks\n[^]*?(?=^## )/m

/** The rows of all tables of packages by the text in their first column. The first of the cells belongs to sluice. */
function tables(text: string): ReadonlyMap<string, Cells> {
  const lines = text
    .replace(TASKS, '')
    .split('\n')
    .filter((line) => line.startsWith('|') && !/^\| -|^\| +\| sluice /.test(line))
  return new Map(
    lines.map((line) => {
      const [title, ...cells] = line.slice(1, -1).split('|')
      return [title!.trim(), cells.map((cell) => cell.trim())]
    }),
  )
}

/** The columns of the packages for Node. */
const columns = [
  'sluice',
  'rate-limiter-flexible',
  'express-rate-limit',
  '@fastify/rate-limit',
  'hono-rate-limiter',
  '@nestjs/throttler',
  '@upstash/ratelimit',
]

function definitions(text: string): ReadonlyMap<string, string> {
  return new Map([...text.matchAll(/^\[([\w-]+)\]: (\S+)$/gm)].map(([, id, target]) => [id!, target!]))
}

const cited = /\[([^\]]+)\]\[([\w-]+)\]/g

/** Returns what is wrong with a place that a cell names as its evidence. */
function mistakeIn(target: string): string | undefined {
  const published = /^https:\/\/unpkg\.com\/((?:@[\w-]+\/)?[\w-]+)@([\d.]+)\/(.+)$/.exec(target)
  if (published !== null) {
    const [, name, version, path] = published
    const installed = (manifest.devDependencies as Readonly<Record<string, string>>)[name!]
    if (installed !== version) return `${target}: version ${installed} is installed`
    return existsSync(join(root, 'node_modules', name!, path!)) ? undefined : `${target}: the package has no such file`
  }
  if (/^https:\/\/(learn\.microsoft\.com|www\.nuget\.org)\/\S+$/.test(target)) return undefined
  // A branch changes, a commit does not.
  if (/^https:\/\/github\.com\/[\w-]+\/[\w-]+\/blob\/[\da-f]{40}\/\S+$/.test(target)) return undefined
  if (/^https?:/.test(target)) return `${target}: is no source at a fixed version`
  return isDead(PAGE, target) ? `${target}: no such file or heading` : undefined
}

/** Returns what is wrong with the evidence of a page. */
function mistakesIn(text: string): string[] {
  const targets = definitions(text)
  const mistakes = [...targets.values()].flatMap((target) => mistakeIn(target) ?? [])
  const used = new Set([...text.matchAll(cited)].map(([, , id]) => id!))
  for (const id of targets.keys()) if (!used.has(id)) mistakes.push(`[${id}] is not used`)
  for (const [title, cells] of tables(text)) {
    if (cells.length !== columns.length + 2) mistakes.push(`${title}: ${cells.length} cells`)
    for (const [i, cell] of cells.entries()) {
      const ids = [...cell.matchAll(cited)].map(([, , id]) => id!)
      if (ids.length === 0 || cell.replaceAll(cited, '').replaceAll('; ', '') !== '') {
        mistakes.push(`${title}, column ${i + 1}: "${cell}" has text without evidence`)
      }
      mistakes.push(...ids.filter((id) => !targets.has(id)).map((id) => `[${id}] leads nowhere`))
    }
  }
  return mistakes
}

describe('the comparison', () => {
  it('has evidence for each cell, and each leads to a file, or to a source at a fixed version', () => {
    expect(tables(page()).size).toBeGreaterThan(20)
    expect(mistakesIn(page())).toEqual([])
    expect(mistakesIn(page().replace('[yes][charges]', 'yes'))).not.toEqual([])
  })
})

describe('the seven tasks', () => {
  const part = TASKS.exec(page())![0]
  const rows = [...part.matchAll(/^\| \[(.+?)\]\(#.*?\) +\| (\d+) +\| (\d+) +\| (\S+) +\|$/gm)].map(
    ([, task, ours, theirs, peer]) => ({ task: task!, said: [Number(ours), Number(theirs)], peer: peer! }),
  )

  /** Returns the programs below the heading of a task: that with sluice, and that with the peer. */
  function programsOf(task: string): string[] {
    const below = part.slice(part.indexOf(`### ${task}\n`)).split(/^### /m)[1]!
    return blocksOf(below).map(({ code }) => code)
  }

  /** Returns the characters of a program without imports, white space and trailing commas. */
  function lengthOf(program: string): number {
    const body = program.replaceAll(/^import [^;]*? from '.*'\n/gm, '')
    return body.replaceAll(/\s/g, '').replaceAll(/,(?=[}\])])/g, '').length
  }

  it.each(rows)('$task: sluice is no longer than $peer', ({ task, said, peer }) => {
    const [ours, theirs, ...others] = programsOf(task) as [string, string]
    expect(others).toEqual([])
    expect(ours).toContain(`from 'sluice'`)
    expect(theirs).toContain(`from '${peer}'`)
    expect(theirs).not.toContain('sluice')
    expect([ours, theirs].map(lengthOf)).toEqual(said)
    expect(lengthOf(ours)).toBeLessThanOrEqual(lengthOf(theirs))
  })
})

describe('the figures of versions', () => {
  it('names the versions that were compared', () => {
    const cells = tables(page()).get('Version compared')!
    const installed = manifest.devDependencies as Readonly<Record<string, string>>
    const versions = columns.map((name) => (name === 'sluice' ? manifest.version : installed[name]))
    expect(cells.slice(0, columns.length).map(firstText)).toEqual(versions)
  })
})

function firstText(cell: string): string {
  return /\[([^\]]+)\]/.exec(cell)![1]!
}

/**
 * Compares the first text of each cell of a row with the figures, after it replaces these texts if they are to be recorded.
 * Sizes may be off by `tolerance`, a part of the figure, since each change of the package changes them a little.
 */
async function compare(title: string, figures: ReadonlyMap<string, string>, tolerance = 0): Promise<void> {
  if (process.env['SLUICE_RECORD'] === 'comparison') {
    const lines = page().split('\n')
    const at = lines.findIndex((line) => line.startsWith(`| ${title} `))
    const cells = lines[at]!.split('|')
    for (const [column, figure] of figures) {
      const i = columns.indexOf(column) + 2
      cells[i] = cells[i]!.replace(/\[[^\]]+\]/, () => `[${figure}]`)
    }
    lines[at] = cells.join('|')
    await writePage(PAGE, lines.join('\n'))
  }
  const cells = tables(page()).get(title)!
  const numberIn = (text: string): number => Number(text.replaceAll(',', ''))
  const said = [...figures].map(([column, figure]) => {
    const shown = firstText(cells[columns.indexOf(column)]!)
    const isClose = Math.abs(numberIn(shown) - numberIn(figure)) <= tolerance * numberIn(figure)
    return [column, isClose ? figure : shown]
  })
  expect(said, 'SLUICE_RECORD=comparison npx vitest run test/docs/comparison.test.ts writes the figures').toEqual([
    ...figures,
  ])
}

describe('the figures of speed', () => {
  interface Value {
    readonly median: number
  }
  interface Results {
    readonly parts: Readonly<
      Record<
        string,
        { readonly rows: readonly { group: string; title: string; values: Readonly<Record<string, Value>> }[] }
      >
    >
  }
  const results = JSON.parse(readFileSync(join(root, 'bench/results/latest.json'), 'utf8')) as Results
  const rows = Object.values(results.parts).flatMap((part) => part.rows)
  const figures: Readonly<Record<string, readonly [group: string, title: string]>> = {
    'In memory, one hot key, ns': ['Time per decision, against the peers', 'one hot key'],
    'In memory, a million keys, ns': ['Time per decision, against the peers', 'random, 1,000,000 keys'],
    'Memory for each key, bytes': ['Memory per key and limit', '1,000,000 keys'],
    'Redis, 8 decisions at a time, per second': ['Redis, one limit, decisions per second', '8 in flight'],
    'Redis, 128 decisions at a time, per second': ['Redis, one limit, decisions per second', '128 in flight'],
    'Added to a request in Express, µs': ['In a server, Express 5', 'of it, over two headers'],
    'Added to a request in Fastify, µs': ['In a server, Fastify 5', 'of it, over two headers'],
  }

  it.each(Object.entries(figures))('%s: are those of the last benchmark', async (title, [group, subject]) => {
    const { values } = rows.find((row) => row.group === group && row.title === subject)!
    const names: Readonly<Record<string, string>> = { after: 'sluice', 'rate-limit-redis': 'express-rate-limit' }
    const medians = Object.entries(values).map(([name, { median }]) => [names[name] ?? name, median] as const)
    const shown = medians.filter(([name]) => columns.includes(name))
    expect(shown.length).toBeGreaterThan(1)
    await compare(title, new Map(shown.map(([name, median]) => [name, shownNumber(median)])))
  })

  function shownNumber(value: number): string {
    return Math.abs(value) < 20 ? value.toFixed(1) : Math.round(value).toLocaleString('en-US')
  }
})

describe('the figures of size', () => {
  const packed = packedPackage()
  const frameworks = [
    'express',
    'fastify',
    'hono',
    '@nestjs/common',
    '@nestjs/core',
    '@upstash/redis',
    'reflect-metadata',
  ]

  interface Manifest {
    readonly dependencies?: Readonly<Record<string, string>>
  }

  /** Returns the folders of a package and of its dependencies. */
  function foldersOf(name: string, from: string, found = new Set<string>()): ReadonlySet<string> {
    let folder = from
    while (!existsSync(join(folder, 'node_modules', name, 'package.json'))) folder = join(folder, '..')
    const own = join(folder, 'node_modules', name)
    if (found.has(own)) return found
    found.add(own)
    const { dependencies = {} } = JSON.parse(readFileSync(join(own, 'package.json'), 'utf8')) as Manifest
    for (const each of Object.keys(dependencies)) if (!frameworks.includes(each)) foldersOf(each, own, found)
    return found
  }

  /** Returns the bytes of the files of a package, without packages in it. */
  function bytesOf(folder: string): number {
    return readdirSync(folder, { withFileTypes: true }).reduce((sum, entry) => {
      if (entry.name === 'node_modules') return sum
      const path = join(folder, entry.name)
      return sum + (entry.isDirectory() ? bytesOf(path) : statSync(path).size)
    }, 0)
  }

  function installedKilobytes(name: string, from: string): number {
    const folders = [...foldersOf(name, from)]
    return folders.reduce((sum, folder) => sum + bytesOf(folder), 0) / 1000
  }

  it('are those of the packages as installed', async () => {
    const home = await packed.project('comparison', {})
    const sizes = columns.map((name) => [name, installedKilobytes(name, name === 'sluice' ? home : root)] as const)
    await compare(
      'Installed, with dependencies but without frameworks and clients, kB',
      new Map(sizes.map(([name, size]) => [name, rounded(size, 100)])),
      0.1,
    )
  })

  it('are those of bundles', async () => {
    const ours = await sizeOf(await builtPackage(), manifest.exports['./express'].import.default)
    const sizes = new Map([['sluice', rounded(ours, 5)]])
    for (const name of columns.slice(1)) {
      const { outputFiles } = await build({
        stdin: { contents: `export * from ${JSON.stringify(name)}`, resolveDir: root },
        bundle: true,
        minify: true,
        write: false,
        format: 'esm',
        platform: 'node',
        external: [...frameworks, ...Object.keys(manifest.peerDependencies)],
      })
      sizes.set(name, rounded(gzipSync(outputFiles[0]!.contents).length / 1000, 5))
    }
    await compare('Bundled with the adapter, gzipped, kB', sizes, 0.1)
  })

  /** A figure that does not change with each small change. */
  function rounded(value: number, step: number): string {
    return Math.max(step, Math.round(value / step) * step).toLocaleString('en-US')
  }
})

const WINDOW = 10_000
const QUOTA = 10
/** At the start of a window by the clock. */
const START = Date.UTC(2027, 0, 1)

/** Patterns of requests, in milliseconds. */
const polling = (from: number, to: number): number[] =>
  Array.from({ length: (to - from) / 100 }, (_, i) => from + 100 * i)
const patterns: Readonly<Record<string, readonly number[]>> = {
  always: polling(0, 40_000),
  'one, then all at the end of its window': [0, ...Array<number>(9).fill(9900), ...Array<number>(10).fill(10_100)],
  'all at the end of a window, then one each second': [
    ...Array<number>(10).fill(9900),
    ...polling(1100, 2000).map((time) => 10 * time),
  ],
  'all at the end of a window, then always': [...Array<number>(10).fill(9900), ...polling(10_000, 30_000)],
}

/** Returns the most admitted requests within any time shorter than the window. */
async function mostAdmitted(
  admit: (key: string) => boolean | Promise<boolean>,
  advance: (to: number) => void,
): Promise<number> {
  let most = 0
  for (const [run, [name, times]] of Object.entries(patterns).entries()) {
    const admitted: number[] = []
    for (const time of times) {
      advance(START + run * 100 * WINDOW + time)
      if (await admit(name)) admitted.push(time)
    }
    for (const [i, from] of admitted.entries()) {
      most = Math.max(most, admitted.filter((time, j) => j >= i && time < from + WINDOW).length)
    }
  }
  return most
}

describe('the most that passes in any window', () => {
  const shared = upstashForAll()
  afterEach(() => vi.useRealTimers())

  /** Returns whether a package admits a request of a key at the time of the clock. */
  type Admits = (key: string) => boolean | Promise<boolean>

  function ours(limits: Limit): Admits {
    const clock = { now: () => Date.now() }
    const limiter = createLimiter({ keyer: (key: string) => key, limits, store: memoryStore({ clock }) })
    return (key) => limiter.consume(key).allowed
  }

  function counting(store: ExpressStore | HonoStore): Admits {
    store.init({ windowMs: WINDOW } as never)
    return async (key) => (await store.increment(key)).totalHits <= QUOTA
  }

  /** The packages that count in memory. */
  const inMemory: Readonly<Record<string, () => Admits>> = {
    sluice: () => ours(gcra({ quota: QUOTA, window: WINDOW })),
    'rate-limiter-flexible'() {
      const limiter = new RateLimiterMemory({ points: QUOTA, duration: WINDOW / 1000 })
      return (key) =>
        limiter.consume(key).then(
          () => true,
          () => false,
        )
    },
    'express-rate-limit': () => counting(new ExpressStore()),
    '@fastify/rate-limit'() {
      type Done = (error: unknown, result: { readonly current: number }) => void
      const LocalStore = require('@fastify/rate-limit/store/LocalStore.js') as new (...options: unknown[]) => {
        incr(key: string, done: Done, window: number, quota: number): void
      }
      const store = new LocalStore(false, false, 5000)
      return (key) => {
        let current = 0
        store.incr(key, (_error, result) => (current = result.current), WINDOW, QUOTA)
        return current <= QUOTA
      }
    },
    'hono-rate-limiter': () => counting(new HonoStore()),
    '@nestjs/throttler'() {
      const storage = new ThrottlerStorageService()
      return async (key) => !(await storage.increment(key, WINDOW, QUOTA, WINDOW, 'default')).isBlocked
    },
  }

  function upstash(): Admits {
    const { url, token } = shared.proxy
    const redis = new Redis({ url, token, retry: false })
    const ratelimit = new Ratelimit({ redis, limiter: Ratelimit.slidingWindow(QUOTA, '10 s'), timeout: 0 })
    return async (key) => (await ratelimit.limit(key)).success
  }

  async function mostOnFakeTimers(make: () => Admits): Promise<number> {
    vi.useFakeTimers({ now: START - 1 })
    const most = await mostAdmitted(make(), (to) => vi.advanceTimersByTime(to - Date.now()))
    vi.useRealTimers()
    return most
  }

  it('is what the page says', async () => {
    const figures = new Map<string, string>()
    for (const [name, make] of Object.entries(inMemory)) figures.set(name, String(await mostOnFakeTimers(make)))
    vi.useFakeTimers({ now: START - 1, toFake: ['Date'] })
    figures.set('@upstash/ratelimit', String(await mostAdmitted(upstash(), (to) => vi.setSystemTime(to))))
    vi.useRealTimers()
    await compare('Most requests that pass in any 10 s, for 10 per 10 s', figures)
  })
})

describe('several limits', () => {
  it('a union of rate-limiter-flexible charges the limits that do not deny', async () => {
    const short = new RateLimiterMemory({ keyPrefix: 'short', points: 1, duration: 600 })
    const long = new RateLimiterMemory({ keyPrefix: 'long', points: 100, duration: 3600 })
    const union = new RateLimiterUnion(short, long)
    const results = []
    for (let i = 0; i < 50; i++) results.push(await union.consume('ann').catch(() => 'denied'))
    expect(results.filter((each) => each !== 'denied')).toHaveLength(1)
    expect((await long.get('ann'))?.consumedPoints).toBe(50)
  })

  it('the first of two middlewares of express-rate-limit counts what the second denies', async () => {
    const long = rateLimit({ windowMs: 3_600_000, limit: 100 })
    const app = express().use(long, rateLimit({ windowMs: 600_000, limit: 1 }))
    app.get('/', (_request, response) => void response.send('hello'))
    const statuses: number[] = []
    for (let i = 0; i < 5; i++) statuses.push((await supertest(app).get('/')).status)
    expect(statuses).toEqual([200, 429, 429, 429, 429])
    const used = await Promise.all(['::ffff:127.0.0.1', '127.0.0.1', '::/56'].map((key) => long.getKey(key)))
    expect(used.map((each) => each?.totalHits)).toContain(5)
  })
})
