// `sluice serve` as a process: over HTTP and at a socket file.
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { existsSync, statSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { Proxy } from '../support/faults/proxy.ts'
import { listen } from '../adapters/framework.ts'
import { serverOf } from '../../src/cli/serve/server.ts'
import { createLimiter, perMinute } from '../../src/index.ts'
import { Service } from '../../src/service/service.ts'
import { afterTest } from '../support/after-test.ts'
import { heapUsed } from '../support/heap.ts'
import { connected, until } from '../support/http.ts'
import { startPostgres } from '../support/postgres.ts'
import { startRedis } from '../support/redis.ts'
import {
  askService,
  commandLineWithRules,
  decideFor,
  serveRules,
  type Serving,
  startServe,
} from '../support/serve-program.ts'

const TOKEN = 'a-token-of-a-test'
function document(quota: number): object {
  const limits = [{ algorithm: 'fixedWindow', quota, window: '1h' }]
  const policies = [{ name: 'api', match: { path: '/api/*' }, key: 'ip', limits }]
  return { otherwise: 'allow', policies }
}

const program = commandLineWithRules(document(3))
const redis = await startRedis()
afterAll(() => redis.stop())

const served = (env?: Readonly<Record<string, string>>, ...words: readonly string[]): Promise<Serving> =>
  serveRules(program, env, ...words)

async function statuses(serving: Serving, ip: string, count: number): Promise<number[]> {
  const found: number[] = []
  for (let i = 0; i < count; i++) found.push((await decideFor(serving, ip)).status)
  return found
}

describe('sluice serve', () => {
  it('decides over HTTP, and warns that it has no token', async () => {
    const serving = await served()
    expect(serving.where).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    expect(serving.log()).toMatch(/^SLUICE_TOKEN is not set/)
    expect(await statuses(serving, '203.0.113.1', 4)).toEqual([200, 200, 200, 429])
    const { headers, body } = await decideFor(serving, '203.0.113.1')
    expect(headers).toMatchObject({
      ratelimit: expect.stringMatching(/^"api";r=0;t=/),
      'retry-after': expect.stringMatching(/^\d+$/),
    })
    expect(JSON.parse(body)).toMatchObject({ title: 'Quota Exceeded' })
    expect((await askService(serving, '/metrics')).body).toContain(
      'sluice_requests_total{limiter="rules",outcome="denied"} 2',
    )
    expect(await serving.end()).toBe(0)
  })

  it('asks for the token, and needs one at an address that other machines reach', async () => {
    const tokens = [TOKEN, 'the-next-token-of-a-test']
    const serving = await served({ SLUICE_TOKEN: tokens.join() }, '--host', '0.0.0.0')
    expect(serving.log()).toBe('')
    expect((await decideFor(serving, '203.0.113.2')).status).toBe(401)
    for (const token of tokens)
      expect((await decideFor(serving, '203.0.113.2', { Authorization: `Bearer ${token}` })).status).toBe(200)
    expect((await askService(serving, '/health')).status).toBe(200)
    for (const host of ['0.0.0.0', '::', '127.example.com']) {
      const { code, error } = await program.run(['serve', 'rules.json', '--host', host])
      expect(code).toBe(2)
      expect(error).toContain(`--host ${host}: other machines can reach this address. Set SLUICE_TOKEN`)
    }
  })

  it('refuses a token that is empty or short', async () => {
    for (const token of ['', 'short', `${TOKEN},`]) {
      const refused = /ended with 2: sluice: token: expected a text of 16 characters/
      await expect(served({ SLUICE_TOKEN: token })).rejects.toThrow(refused)
    }
  })

  it('serves a socket file for its user and its group, and removes it', async () => {
    const serving = await startServe(program, ['rules.json', '--socket', 'limits.sock'])
    const file = join(program.home, 'limits.sock')
    expect(serving.where).toBe('limits.sock')
    expect((statSync(file).mode & 0o777).toString(8)).toBe('660')
    expect(await statuses({ ...serving, where: file }, '203.0.113.3', 4)).toEqual([200, 200, 200, 429])
    const second = await program.run(['serve', 'rules.json', '--socket', 'limits.sock'])
    expect([second.code, second.error]).toEqual([1, expect.stringContaining('EADDRINUSE')])
    expect((await askService({ where: file }, '/health')).status).toBe(200)
    expect(await serving.end('SIGINT')).toBe(0)
    expect(existsSync(file)).toBe(false)
  })

  it('serves a socket file whose name is a number, and no port', async () => {
    const serving = await startServe(program, ['rules.json', '--socket', '8080'])
    expect(serving.where).toBe('./8080')
    expect(statSync(join(program.home, '8080')).isSocket()).toBe(true)
    await serving.end()
  })

  it('takes over the socket file of a process that was killed, and no other file', async () => {
    const killed = await startServe(program, ['rules.json', '--socket', 'killed.sock'])
    await killed.end('SIGKILL')
    expect(existsSync(join(program.home, 'killed.sock'))).toBe(true)
    const serving = await startServe(program, ['rules.json', '--socket', 'killed.sock'])
    expect((await askService({ where: join(program.home, 'killed.sock') }, '/health')).status).toBe(200)
    await serving.end()
    program.file('notes.txt', 'notes')
    const { code } = await program.run(['serve', 'rules.json', '--socket', 'notes.txt'])
    expect(code).toBe(1)
    expect(statSync(join(program.home, 'notes.txt')).size).toBe(5)
  })

  it('applies rules that change in the file, and keeps them while the file has mistakes', async () => {
    program.file('changing.json', JSON.stringify(document(1)))
    const serving = await startServe(program, ['changing.json', '--port', '0'])
    expect(await statuses(serving, '203.0.113.4', 2)).toEqual([200, 429])
    program.file('changing.json', JSON.stringify(document(2)))
    await until(() => serving.log().includes('Version 2 of the rules applies.'))
    expect(await statuses(serving, '203.0.113.4', 2)).toEqual([200, 429])
    program.file('changing.json', '{ "policies": 1 }')
    await until(() => serving.log().includes('SLUICE_RULES_INVALID'))
    expect(await statuses(serving, '203.0.113.5', 3)).toEqual([200, 200, 429])
  })

  it('ends after the open requests are answered', async () => {
    const serving = await served()
    const socket = connect(Number(new URL(serving.where).port), '127.0.0.1')
    let answer = ''
    socket.on('data', (data: Buffer) => (answer += data.toString()))
    await once(socket, 'connect')
    const body = JSON.stringify({ input: { ip: '203.0.113.6', method: 'GET', path: '/api/x' } })
    socket.write(
      `POST /decide HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, 9)}`,
    )
    await pause(100)
    const ended = serving.end()
    await expect.poll(() => askService(serving, '/health').catch(() => 'refused')).toBe('refused')
    expect(serving.process.exitCode).toBe(null)
    socket.write(body.slice(9))
    expect(await ended).toBe(0)
    expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n[^]*Connection: close\r\n/)
  })

  it('does not wait for connections that have sent nothing, which proxies open ahead of requests', async () => {
    const serving = await served()
    const socket = connect(Number(new URL(serving.where).port), '127.0.0.1').on('error', () => undefined)
    await once(socket, 'connect')
    await pause(100)
    const began = performance.now()
    expect(await serving.end()).toBe(0)
    expect(performance.now() - began).toBeLessThan(5000)
  })

  it('closes connections whose requests do not arrive in time', async () => {
    const port = Number(new URL((await served()).where).port)
    const began = performance.now()
    const post = 'POST /decide HTTP/1.1\r\nHost: a\r\n'
    const times = await Promise.all(
      [post, `${post}Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{`].map(async (text) => {
        const socket = connect(port, '127.0.0.1').on('error', () => undefined)
        socket.resume().write(text)
        await once(socket, 'close')
        return performance.now() - began
      }),
    )
    expect(times[0]).toBeGreaterThan(4500)
    expect(times[0]).toBeLessThan(9000)
    expect(times[1]).toBeGreaterThan(9500)
    expect(times[1]).toBeLessThan(14_000)
  }, 30_000)

  it.each([
    [[], 2, 'expected a file of rules, or the URL of a Redis'],
    [['a.json', 'b.json'], 2, 'expected a file of rules'],
    [['rules.json', '--port', '70000'], 2, 'expected --port from 0 to 65535'],
    [['rules.json', '--port', ''], 2, 'expected --port from 0 to 65535'],
    [['rules.json', '--socket', 'a.sock', '--port', '1'], 2, 'expected --socket, or --port and --host'],
    [['rules.json', '--socket', ''], 2, 'expected --socket with the name of a file'],
    [['rules.json', '--socket', `${'a'.repeat(103)}é`], 2, 'of at most 103 bytes'],
    [['rules.json', '--on-outage', 'shut'], 2, 'onOutage: expected'],
    [['rules.json', '--headers', 'new'], 2, 'headers: expected'],
    [['rules.json', '--store', 'ftp://a'], 2, 'expected a URL such as redis://'],
    [['rules.json', '--nonsense'], 2, 'nonsense'],
    [['nothing.json'], 1, 'The rules could not be read'],
    [['rules.json', '--store', 'redis://127.0.0.1:1'], 1, 'no connection to redis://127.0.0.1:1'],
    [['rules.json', '--socket', 'no/folder.sock'], 1, 'The service cannot listen'],
  ])('ends with what is wrong: %j', async (words, code, message) => {
    const result = await program.run(['serve', ...words])
    expect([result.code, result.error]).toEqual([code, expect.stringContaining(message)])
  })
})

describe('sluice serve --store', () => {
  /** Expects that two processes count together. */
  async function expectShared(ip: string, ...words: readonly string[]): Promise<void> {
    const [one, other] = await Promise.all([served({}, ...words), served({}, ...words)])
    expect(await statuses(one, ip, 2)).toEqual([200, 200])
    expect(await statuses(other, ip, 2)).toEqual([200, 429])
    expect(await Promise.all([one.end(), other.end()])).toEqual([0, 0])
  }

  it('counts in Redis, together with other processes', async () => {
    await expectShared('203.0.113.7', '--store', redis.url, '--prefix', 'served:')
    const shown = await program.output('inspect', redis.url, 'rules/api', '203.0.113.7', '--prefix', 'served:')
    expect(shown).toMatch(/^api +3 +3 +0 /m)
  })

  it.each(['ioredis', 'redis'])(
    'decides by itself when a network has forgotten its connection, and counts in Redis again, by %s',
    async (client) => {
      const proxy = (await Proxy.listen()).to(redis.port)
      onTestFinished(() => proxy.close())
      const words = ['--store', `redis://127.0.0.1:${proxy.port}`, '--prefix', `${client}:`, '--client', client]
      const serving = await served({}, ...words)
      const isUp = async (): Promise<boolean> => {
        await decideFor(serving, '203.0.113.20')
        return /^sluice_store_up 1$/m.test((await askService(serving, '/metrics')).body)
      }
      expect(await isUp()).toBe(true)
      proxy.forget()
      await expect.poll(isUp, { timeout: 10_000 }).toBe(false)
      expect(await statuses(serving, '203.0.113.9', 4)).toEqual([200, 200, 200, 429])
      expect((await askService(serving, '/metrics')).body).toMatch(
        /sluice_degraded_total\{limiter="rules",mode="local"\} [1-9]/,
      )
      await expect.poll(isUp, { timeout: 20_000 }).toBe(true)
      expect(await statuses(serving, '203.0.113.11', 4)).toEqual([200, 200, 200, 429])
      const key = ['rules/api', '203.0.113.11', '--prefix', `${client}:`]
      expect(await program.output('inspect', redis.url, ...key)).toMatch(/^api +3 +3 +0 /m)
      expect(await serving.end()).toBe(0)
    },
    60_000,
  )

  it('counts in a file of SQLite, which it creates', async () => {
    const first = await served({}, '--store', 'sqlite:served.db')
    expect(await statuses(first, '203.0.113.12', 2)).toEqual([200, 200])
    await first.end()
    const second = await served({}, '--store', 'sqlite:served.db')
    expect(await statuses(second, '203.0.113.12', 2)).toEqual([200, 429])
    expect(await second.end()).toBe(0)
  })

  it('needs the table of PostgreSQL, and counts in it', async () => {
    const postgres = await startPostgres()
    onTestFinished(() => postgres.remove())
    await expect(served({}, '--store', postgres.url)).rejects.toThrow(/ended with 1: [^]*sluice migrate postgres/)
    await program.output('migrate', postgres.url, '--apply')
    await expectShared('203.0.113.13', '--store', postgres.url)
  }, 240_000)

  it('follows rules in Redis', async () => {
    await program.output('rules', 'push', 'rules.json', redis.url)
    const serving = await startServe(program, [redis.url, '--port', '0'])
    expect(await statuses(serving, '203.0.113.14', 4)).toEqual([200, 200, 200, 429])
    program.file('pushed.json', JSON.stringify(document(4)))
    await program.output('rules', 'push', 'pushed.json', redis.url)
    await until(() => serving.log().includes('Version 2 of the rules applies.'))
    expect(await statuses(serving, '203.0.113.14', 2)).toEqual([200, 429])
    expect(await serving.end()).toBe(0)
  })
})

describe('hostile connections', () => {
  it('keep no more of a body in memory than its bytes', async () => {
    const service = new Service({ limiters: [createLimiter({ keyer: String, limits: perMinute(1) })], token: false })
    const server = serverOf(service)
    afterTest(() => service.close())
    let [read, closed] = [0, 0]
    server.on('request', (request: IncomingMessage) => {
      request.on('data', ({ length }) => (read += length))
      request.once('close', () => closed++)
    })
    const served = await listen(server)
    const sockets = await Promise.all(Array.from({ length: 4 }, () => connected(served)))
    const head =
      'POST /decide HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n'
    for (const each of sockets) each.write(head + '1\r\n \r\n'.repeat(50_000))
    await until(() => read === 4 * 50_000)
    const held = heapUsed()
    for (const each of sockets) each.destroy()
    await until(() => closed === 4)
    // Each part of one byte takes 200 bytes if it is kept.
    expect(held - heapUsed()).toBeLessThan(4 * 500_000)
  })

  it('crash nothing', async () => {
    const serving = await served()
    const port = Number(new URL(serving.where).port)
    const texts = [
      '\0\u0001\u0002',
      'GET',
      'GET / HTTP/9.9\r\n\r\n',
      'POST /decide HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n',
      'POST /decide HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n',
      'POST /decide HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"inp\r\n',
      `GET /check/${'a'.repeat(20_000)} HTTP/1.1\r\nHost: a\r\n\r\n`,
      'GET /check/%zz%00/../.. HTTP/1.1\r\nHost: a\r\nX-Real-IP: 203.0.113.15\r\n\r\n',
      'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n',
      'GET http://a/decide HTTP/1.1\r\nHost: a\r\n\r\n',
      'GET /metrics HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n',
      'POST /decide HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n',
    ]
    for (let round = 0; round < 5; round++) {
      await Promise.all(
        texts.map(async (text) => {
          const socket = connect(port, '127.0.0.1').on('error', () => undefined)
          await once(socket, 'connect')
          socket.resume().write(text)
          await pause(20)
          socket.destroy()
        }),
      )
    }
    expect((await askService(serving, '/health')).status).toBe(200)
    expect(await statuses(serving, '203.0.113.16', 4)).toEqual([200, 200, 200, 429])
    const lines = serving.log().split('\n')
    expect(lines.filter((line) => line !== '' && !/^SLUICE_TOKEN|^\(Use `node/.test(line))).toEqual([])
  })
})
