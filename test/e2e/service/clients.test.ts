// Runs the programs of docs/guides/go-and-python.md with Go and Python of Debian, in front of `sluice serve`.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { afterTest } from '../../support/after-test.ts'
import { programPath } from '../../support/debian.ts'
import { ask, type Reply } from '../../support/http.ts'
import { readPage } from '../../support/pages.ts'
import { blocksOf } from '../../support/programs.ts'
import { commandLineWithRules, serveRules, type Serving, startServe } from '../../support/serve-program.ts'
import { freePort } from '../../support/redis.ts'

const TOKEN = 'a-token-of-a-test'
const blocks = blocksOf(readPage('docs/guides/go-and-python.md'))
const codeOf = (language: string): string => blocks.find((each) => each.language === language)!.code

const limits = [{ algorithm: 'fixedWindow', quota: 2, window: '1h' }]
const program = commandLineWithRules({
  policies: [
    { name: 'api', match: { path: '/api/*' }, key: 'ip', limits },
    { name: 'cafe', match: { path: '/café' }, key: 'ip', limits: [{ quota: 0, window: '1h' }] },
  ],
})

interface Client {
  readonly url: string
  readonly log: () => string
}

/** Starts a program of the page on a free port. */
async function start(command: string, args: readonly string[], port: number): Promise<Client> {
  const child = spawn(command, args, { cwd: program.home, env: { ...process.env, SLUICE_TOKEN: TOKEN } })
  afterTest(() => child.kill('SIGKILL'))
  let log = ''
  child.stderr.on('data', (data: Buffer) => (log += data.toString()))
  const url = `http://127.0.0.1:${port}`
  const isUp = (): Promise<boolean> =>
    fetch(url).then(
      () => true,
      () => false,
    )
  await expect.poll(isUp, { timeout: 20_000, message: log }).toBe(true)
  return { url, log: () => log }
}

async function withPorts(
  language: string,
  serving: Pick<Serving, 'where'>,
): Promise<readonly [code: string, port: number]> {
  const port = await freePort()
  const code = codeOf(language).replace('127.0.0.1:8080', serving.where.replace('http://', ''))
  return [
    code.replace('127.0.0.1:3000', `127.0.0.1:${port}`).replace('"127.0.0.1", 3000', `"127.0.0.1", ${port}`),
    port,
  ]
}

async function python(serving: Pick<Serving, 'where'>): Promise<Client> {
  const command = programPath('command -v python3', 'python3', 'The test needs python3 on the PATH.')
  const [code, port] = await withPorts('python', serving)
  program.file('app.py', code)
  return start(command, ['app.py'], port)
}

async function go(serving: Pick<Serving, 'where'>): Promise<Client> {
  const command = programPath(
    'command -v go',
    'golang-go',
    'The test needs go on the PATH (Debian: apt-get install golang-go).',
  )
  const [code, port] = await withPorts('go', serving)
  const folder = join(program.home, 'go')
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'main.go'), code)
  const env = { ...process.env, GOCACHE: join(program.home, 'go-cache'), GOFLAGS: '-mod=mod', GOPROXY: 'off' }
  await promisify(execFile)(command, ['build', '-o', 'app', 'main.go'], { cwd: folder, env })
  return start(join(folder, 'app'), [], port)
}

describe.each([
  ['Python', python],
  ['Go', go],
] as const)('the program in %s', (_, run) => {
  it('sends what the service answers, admits when it does not answer, and logs what it refuses', async () => {
    const serving = await serveRules(program, { SLUICE_TOKEN: TOKEN })
    const client = await run(serving)
    const get = (headers: Record<string, string> = {}): Promise<Reply> => ask(client, '/api/a?b=c', { headers })
    const first = await get()
    expect([first.status, first.body]).toEqual([200, 'hello\n'])
    expect(first.headers['ratelimit-policy']).toBe('"api";q=2;w=3600')
    expect(first.headers['ratelimit']).toMatch(/^"api";r=1;t=\d+$/)
    await get()
    const denied = await get()
    expect(denied.status).toBe(429)
    expect(denied.headers).toMatchObject({
      'content-type': 'application/problem+json',
      'retry-after': expect.stringMatching(/^\d+$/),
    })
    expect(JSON.parse(denied.body)).toMatchObject({ title: 'Quota Exceeded' })
    expect((await get({ Accept: 'text/html' })).headers['content-type']).toBe('text/html; charset=utf-8')
    expect((await ask(client, '/other')).status).toBe(200)
    expect((await ask(client, '/caf%C3%A9')).status).toBe(429)
    // No message has room for it.
    expect((await ask(client, `/${'a'.repeat(65_500)}`)).status).toBe(413)
    const socket = connect(Number(new URL(client.url).port), '127.0.0.1').resume()
    socket.write('GET ?x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n')
    await once(socket, 'close')
    expect(client.log()).not.toContain('not limited')

    await serving.end('SIGKILL')
    const began = performance.now()
    const open = await get()
    expect([open.status, open.headers['ratelimit']]).toEqual([200, undefined])
    expect(performance.now() - began).toBeLessThan(3000)
    await expect.poll(client.log).toContain('not limited')
    const port = new URL(serving.where).port
    const again = await startServe(program, ['rules.json', '--port', port], { SLUICE_TOKEN: TOKEN })
    expect((await get()).headers['ratelimit']).toMatch(/r=1/)
    await again.end()
    await startServe(program, ['rules.json', '--port', port], { SLUICE_TOKEN: 'another-token-of-a-test' })
    expect((await get()).status).toBe(200)
    await expect.poll(client.log).toMatch(/not limited: 401/)
  }, 240_000)
})
