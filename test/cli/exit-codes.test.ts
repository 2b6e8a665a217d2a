import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { EXIT, exitCodeOf } from '../../src/cli/print.ts'
import { SluiceError } from '../../src/index.ts'
import { commandLine } from '../support/command-line.ts'
import { clfLine } from '../support/logs.ts'
import { readPage } from '../support/pages.ts'

const cli = commandLine()
cli.file('one.log', clfLine(Date.parse('2026-11-22T11:00:00Z'), '192.0.2.1', '/'))
cli.file('empty.log', '')
cli.file('rules.json', JSON.stringify({ policies: [{ name: 'a', key: 'ip', limits: [{ quota: 1, window: '1m' }] }] }))
cli.file('wrong.json', JSON.stringify({ policies: [{ name: 'a', quota: 1 }] }))

/** No server listens here. */
const AWAY = 'redis://127.0.0.1:1'
const LIMIT = ['--limit', 'gcra 1/1m']

/** Calls that cannot be understood. */
const MISUSED: Readonly<Record<string, readonly (readonly string[])[]>> = {
  sluice: [[], ['--nonsense'], ['inspct', AWAY, 'api', 'a'], ['toString'], ['--json'], ['']],
  inspect: [
    [],
    [AWAY, 'api', 'a', 'b'],
    ['redis://%zz@127.0.0.1', 'api', 'a'],
    ['redis://127.0.0.1:99999', 'api', 'a'],
    [`${AWAY}/x`, 'api', 'a'],
    [AWAY, 'api', 'a', '--nonsense'],
    [AWAY, 'api', 'a', '--prefix'],
    [AWAY, 'api', 'a', '--client', 'none'],
  ],
  reset: [[], [AWAY, 'api'], [AWAY, 'api', 'a', 'b'], ['localhost', 'api', 'a'], [AWAY, 'api', 'a', '--nonsense']],
  top: [
    [],
    [AWAY, 'api'],
    ['localhost'],
    [AWAY, '--once=1'],
    [AWAY, '--limiter'],
    [AWAY, '--fleet', '--limiter', 'api'],
    ...['0', '10001', '-1', '1.5', 'x', ''].map((keys) => [AWAY, `--keys=${keys}`]),
    ...['99ms', '2h', '5', 'x', ''].map((interval) => [AWAY, `--interval=${interval}`]),
  ],
  replay: [
    [],
    ['one.log'],
    LIMIT,
    ['one.log', '--limit'],
    ['one.log', '--limit', 'grca 1/1m'],
    ['one.log', '--limit', 'gcra 9007199254740881/1000w'],
    ['one.log', ...LIMIT, '--limit', 'gcra 1/1m burst=2'],
    ['one.log', ...LIMIT, '--rules', 'rules.json'],
    ['one.log', '--rules', 'rules.json', '--compare'],
    ['one.log', '--rules', 'rules.json', '--key', 'ip'],
    ['one.log', '--rules', 'rules.txt'],
    ['one.log', ...LIMIT, '--html'],
  ],
  suggest: [
    [],
    ['one.log', '--json=1'],
    ['one.log', '--format', 'clff'],
    ['one.log', '--zone', '2'],
    ['one.log', '--field', 'ip'],
    ['one.log', '--field', 'is=a.b'],
    ['one.log', '--zone', 'CET'],
    ...['2d', '-1s', '10', ''].map((time) => ['one.log', `--reorder=${time}`]),
    ...['31', '129', 'x'].map((bits) => ['one.log', `--ipv6-subnet=${bits}`]),
    ...['0', '8000001', '1e3'].map((keys) => ['one.log', `--max-keys=${keys}`]),
    Array.from({ length: 1001 }, () => 'one.log'),
  ],
  rules: [
    [],
    ['chek', 'rules.json'],
    ['toString'],
    ['check'],
    ['check', 'rules.json', 'rules.json'],
    ['check', 'rules.txt'],
    ['diff', 'rules.json'],
    ['push', 'rules.json'],
    ['push', 'rules.json', AWAY, '--version', '-1'],
    ['pull'],
    ['pull', 'rules.json'],
    ['explain'],
    ['explain', 'rules.json', '--header', 'x'],
    ['explain', 'rules.json', '--attribute', '=x'],
    ['explain', 'rules.json', '--redis', 'localhost'],
    ['explain', 'rules.json', '--ip', '1.2.3'],
    ['explain', 'rules.json', '--path', 'login'],
    ['check', 'rules.json', '--method', 'POST'],
    ['pull', AWAY, '--version', '1'],
    ['push', 'rules.json', AWAY, '--limiter', 'a'],
    ['history', 'rules.json'],
    ['rollback', AWAY, 'newest'],
    ['rollback', AWAY, '1', '2'],
    ['diff', 'rules.json', 'rules.json', '--fail-on', 'changed'],
    ['diff', 'rules.json', 'rules.json', '--fail-on', ''],
    ['check', 'rules.json', '--fail-on', 'loosened'],
  ],
  serve: [['none.json', '--host', '0.0.0.0']],
  block: [[AWAY, 'api', 'ann'], ...['soon', '0', '200000d'].map((time) => [AWAY, 'api', 'ann', time])],
  unblock: [
    [AWAY, 'api'],
    [AWAY, 'api', 'ann', '1h'],
  ],
}

/** Calls that are right, and fail. */
const FAILED: Readonly<Record<string, readonly (readonly string[])[]>> = {
  inspect: [[AWAY, 'api', 'a']],
  reset: [[AWAY, 'api', 'a']],
  top: [[AWAY, '--once']],
  replay: [
    ['none.log', ...LIMIT],
    ['empty.log', ...LIMIT],
    ['one.log', '--rules', 'none.json'],
    ['one.log', '--rules', 'wrong.json'],
    ['one.log', '--rules', AWAY],
    ['one.log', ...LIMIT, '--html', 'none/report.html'],
  ],
  suggest: [['none.log'], ['empty.log'], ['one.log', 'none.log'], ['.']],
  rules: [
    ['check', 'none.json'],
    ['check', 'wrong.json'],
    ['diff', 'rules.json', 'wrong.json'],
    ['push', 'rules.json', AWAY],
    ['push', 'wrong.json', AWAY],
    ['pull', AWAY],
    ['explain', 'wrong.json'],
  ],
}

const DONE = [
  ['--help'],
  ['-h'],
  ...['inspect', 'reset', 'block', 'unblock', 'top', 'migrate', 'replay', 'suggest', 'serve', 'rules'].map(
    (command) => [command, '--help'],
  ),
  ['replay', 'one.log', ...LIMIT],
  ['suggest', 'one.log'],
  ['rules', 'check', 'rules.json'],
]

/** Runs calls, a few at once, and returns those with another exit code. */
async function others(calls: readonly (readonly string[])[], expected: number): Promise<unknown[]> {
  const found: unknown[] = []
  const rest = [...calls]
  const work = async (): Promise<void> => {
    for (let words = rest.pop(); words !== undefined; words = rest.pop()) {
      const { code, out, error } = await cli.run(words)
      const isSaid = expected === EXIT.done ? out !== '' && error === '' : error !== '' || out !== ''
      // The help of a command ends the message.
      const isCluttered = error.includes('\n (sluice/docs')
      if (code !== expected || !isSaid || isCluttered) found.push({ words: words.slice(0, 8), code, error })
    }
  }
  await Promise.all([work(), work(), work()])
  return found
}

describe('the exit code', { timeout: 120_000 }, () => {
  const withName = (name: string, calls: readonly (readonly string[])[]): readonly (readonly string[])[] =>
    name === 'sluice' ? calls : calls.map((words) => [name, ...words])

  it.each(Object.keys(MISUSED))('is 2 for calls of %s that cannot be understood', async (name) => {
    expect(await others(withName(name, MISUSED[name]!), EXIT.misused)).toEqual([])
  })

  it.each(Object.keys(FAILED))('is 1 for calls of %s that fail', async (name) => {
    expect(await others(withName(name, FAILED[name]!), EXIT.failed)).toEqual([])
  })

  it('is 0 for calls that succeed, and for help', async () => {
    expect(await others(DONE, EXIT.done)).toEqual([])
  })

  it('of an error depends on its code, not on the command', () => {
    const codes = ['INVALID_OPTION', 'UNKNOWN_OPTION', 'UNKNOWN_ALGORITHM', 'OUT_OF_RANGE', 'DUPLICATE_LIMIT'] as const
    for (const code of codes) expect(exitCodeOf(new SluiceError(code, 'x'))).toBe(2)
    for (const code of ['STORE_FAILED', 'LOG_UNREADABLE', 'INVALID_RULES', 'NOT_APPLICABLE'] as const)
      expect(exitCodeOf(new SluiceError(code, 'x'))).toBe(1)
    expect(exitCodeOf(Object.assign(new Error('x'), { code: 'ERR_PARSE_ARGS_UNKNOWN_OPTION' }))).toBe(2)
    for (const error of [new Error('x'), undefined, null, 'x', { code: 7 }]) expect(exitCodeOf(error)).toBe(1)
  })

  it('is 0 for the version of the package', async () => {
    expect(await cli.run(['--version'])).toEqual({ code: EXIT.done, out: `${manifest.version}\n`, error: '' })
  })

  it('is the same in the documentation', () => {
    const section = /^## Exit codes\n([^]*?)(?=^## )/m.exec(readPage('docs/reference/cli.md'))![1]!
    const codes = [...section.matchAll(/^\| (\d) /gm)].map(([, code]) => Number(code))
    expect(codes).toEqual(Object.values(EXIT))
  })

  it('comes with the nearest name of an unknown command', async () => {
    const { error } = await cli.run(['inspct', AWAY, 'api', 'a'])
    expect(error).toMatch(/^sluice: there is no command "inspct"\. Did you mean "inspect"\?/)
    expect(error).toContain('Usage: sluice inspect <url> <limiter> <key>')
    const calls = [['chek', 'rules.json'], ['check'], ['rollback', AWAY, '1', '2']]
    const said = await Promise.all(calls.map(async (call) => (await cli.run(['rules', ...call])).error.split('\n')[0]))
    expect(said).toEqual([
      'sluice: there is no command "chek". Did you mean "check"?',
      'sluice: expected 1 argument after check, got 0',
      'sluice: expected 1 or 2 arguments after rollback, got 3',
    ])
  })

  it('is that of the process', async () => {
    expect(await cli.start(['--help'])).toMatchObject({ code: EXIT.done, error: '' })
    expect(await cli.start(['inspct'])).toMatchObject({ code: EXIT.misused, out: '' })
    expect(await cli.start(['replay', 'none.log', ...LIMIT])).toMatchObject({ code: EXIT.failed, out: '' })
  })

  it.each([
    ['that of the command when nobody reads the rest of its output, as before `| head`', EXIT.done, ['--help']],
    ['that of the command when nobody reads its mistakes', EXIT.misused, ['inspct']],
  ])('is %s', async (_, code, words) => {
    const child = spawn(process.execPath, [await cli.program(), ...words])
    child.stdout.destroy()
    child.stderr.destroy()
    expect(await once(child, 'exit')).toEqual([code, null])
  })

  it.runIf(existsSync('/dev/full'))('is 1, with the reason, when the output cannot be written', async () => {
    const full = openSync('/dev/full', 'w')
    try {
      const child = spawn(process.execPath, [await cli.program(), '--help'], { stdio: ['ignore', full, 'pipe'] })
      const [error, [code]] = await Promise.all([text(child.stderr!), once(child, 'exit')])
      expect(error).toBe('sluice: the output cannot be written: ENOSPC: no space left on device, write\n')
      expect(code).toBe(EXIT.failed)
    } finally {
      closeSync(full)
    }
  })
})
