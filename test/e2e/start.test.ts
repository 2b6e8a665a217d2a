// What `npm start` runs, in a folder that is built as it builds.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { beforeAll, describe, expect, it } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { builtExamples } from '../support/built-examples.ts'

const MINUTE = 60_000
const SHOWCASE = 'dist/examples/showcase.js'

interface Ended {
  readonly exitCode: number | string
  readonly output: string
  readonly errors: string
}

let folder: string
let started: Ended

beforeAll(async () => {
  folder = await builtExamples()
  started = await run(process.execPath, SHOWCASE, '--once')
}, 5 * MINUTE)

function run(program: string, ...args: readonly string[]): Promise<Ended> {
  return new Promise((resolve) => {
    // As in a terminal: in a test run some warnings are not emitted.
    const env = Object.fromEntries(
      Object.entries(process.env).filter(([name]) => !/^(VITEST|NODE_ENV|TEST)/.test(name)),
    )
    execFile(program, args, { cwd: folder, env }, (error, output, errors) => {
      resolve({ exitCode: error?.code ?? 0, output, errors })
    })
  })
}

/** A table's rows, cell by cell, and the lines that name policies. */
function rowsOf(output: string, name: string): string[] {
  const table = output.slice(output.indexOf(` ${name} at http://127.0.0.1:`)).split(/\n(?= \w[^\n]* at http)/)[0]!
  const lines = table.split('\n').filter((each) => /^ (GET|POST|RateLimit-Policy|request) ?/.test(each))
  return lines.map((each) => each.trim().replaceAll(/ {2,}/g, ' | '))
}

const first = /^GET \/ \| 200 \| 4 \| – \| "burst";r=4;t=\d+, "hour";r=999;t=\d+$/
const denied = /^GET \/ \| 429 \| 0 \| [12] \| "burst";r=0;t=[12]$/
const deniedLogin = /^POST \/login \| 429 \| 0 \| (900|89\d) \| "login";r=0;t=(900|89\d)$/

describe('npm start -- --once', () => {
  it('builds as the tests do, and runs the showcase', () => {
    const builds = 'npm run build && npm run build:examples && '
    expect(manifest.scripts.start).toBe(`${builds}node ${SHOWCASE}`)
    for (const script of ['test', 'test:all'] as const) expect(manifest.scripts[script]).toMatch(`${builds}vitest run `)
  })

  it('ends well', () => expect(started).toMatchObject({ exitCode: 0 }))

  it('opens without a warning', () => expect(`${started.output}${started.errors}`).not.toMatch(/Warning|SLUICE_/))

  it.each(['Express', 'Fastify', 'Koa'])('shows what a server made with %s has answered', (name) => {
    const rows = rowsOf(started.output, name)
    expect(rows[0]).toBe('request | status | remaining | Retry-After | RateLimit')
    const cells = rows.slice(1).map((each) => each.split(' | ').slice(0, 3).join(' '))
    expect(cells).toEqual([
      'GET / 200 4',
      'GET / 200 3',
      'GET / 200 2',
      'GET / 200 1',
      'GET / 200 0',
      'GET / 429 0',
      'RateLimit-Policy: "burst";q=5;w=10, "hour";q=1000;w=3600',
      'POST /login 200 2',
      'POST /login 200 1',
      'POST /login 200 0',
      'POST /login 429 0',
      'RateLimit-Policy: "login";q=3;w=900',
    ])
    expect(rows[1]).toMatch(first)
    expect(rows[6]).toMatch(denied)
    expect(rows[11]).toMatch(deniedLogin)
  })

  it('shows a limit that is tightened and loosened while requests are sent', () => {
    const rows = rowsOf(started.output, 'Rules in a file, tightened and loosened')
    expect(rows.map((row) => row.replace(/ \| [^|]* \| [^|]*$/, '').replaceAll(' | ', ' '))).toEqual([
      'request status remaining',
      'GET /notes 200 4',
      'GET /notes 200 3',
      'POST /tight 204 –',
      'GET /notes 200 0',
      'GET /notes 429 0',
      'GET /notes 429 0',
      'POST /loose 204 –',
      'GET /notes 200 5',
      'GET /notes 200 4',
      'RateLimit-Policy: "notes";q=5;w=3600 → "notes";q=3;w=3600 → "notes";q=9;w=3600',
    ])
  })

  it('writes plain text where the output is no terminal', () => {
    expect(started.output).not.toContain('\u001B')
    const table = started.output.split('\n').filter((each) => each.startsWith(' '))
    expect(table.filter((each) => each.length > 80)).toEqual([])
  })
})

describe('the showcase', { timeout: MINUTE }, () => {
  it('continues to serve, shows how to send requests, and ends with Ctrl-C', async () => {
    const child = spawn(process.execPath, [SHOWCASE], { cwd: folder })
    let output = ''
    child.stdout.setEncoding('utf8')
    while (!output.includes('Ctrl-C')) output += ((await once(child.stdout, 'data')) as [string])[0]

    const commands = [...output.matchAll(/^ {3}curl -i -X (\w+) http:\/\/127\.0\.0\.1:\d+(\/\w*)$/gm)]
    const lines = commands.map(([, method, path]) => `${method} ${path}`)
    const perApp = ['GET /', 'POST /login']
    expect(lines).toEqual([...perApp, ...perApp, ...perApp, 'GET /notes', 'POST /tight', 'POST /loose'])
    for (const [command, method] of commands) {
      const url = command.slice(command.indexOf('http'))
      const { status } = await fetch(url, { method: method! })
      // By now some of what the bursts have used may have come back, but no login.
      if (url.endsWith('/login')) expect(status).toBe(429)
      else expect([200, 204, 429]).toContain(status)
    }

    child.kill('SIGINT')
    expect(await once(child, 'exit')).toEqual([0, null])
  })
})
