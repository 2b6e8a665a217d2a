import { setTimeout as pause } from 'node:timers/promises'
import { createClient } from 'redis'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { States } from '../../src/dashboard/states.ts'
import { createLimiter, type Duration } from '../../src/index.ts'
import {
  pullRules,
  pushRules,
  type RedisClient,
  rollbackRules,
  rulesHistory,
  rulesFromRedis,
  type RedisRulesOptions,
  redisStore,
} from '../../src/rules/redis/index.ts'
import { createRules, type Rules, type RulesDocument } from '../../src/rules/index.ts'
import { warningsOf } from '../support/http.ts'
import { families } from '../support/redis-clients.ts'
import { type RedisCluster, startCluster } from '../support/redis-cluster.ts'
import { afterTest } from '../support/after-test.ts'
import { connect, redisForAll, server as startServer, until } from '../support/redis-tests.ts'

const api = (quota: number): RulesDocument => ({
  policies: [{ name: 'api', key: 'ip', limits: [{ quota, window: '1h' }] }],
})
const yaml = (quota: number): string => `# ${quota} for everybody
policies:
  - name: api
    key: ip # the address
    limits: [{ quota: ${quota}, window: 1h }]
`
const quotaOf = (rules: Rules): number => rules.current.policies[0]!.limits![0]!.quota

let names = 0
/** A name that no other test uses. */
const anyName = (): string => `test-${names++}`

const redis = redisForAll()
let cluster: RedisCluster
beforeAll(async () => {
  cluster = await startCluster()
}, 60_000)
afterAll(() => cluster.stop())

async function rulesOf(client: RedisClient, options: RedisRulesOptions<unknown>): Promise<Rules> {
  const rules = await rulesFromRedis(client, options)
  onTestFinished(() => rules.close())
  return rules
}

/** Rules with a quota of 1, under a name that no other test uses. */
async function started(
  options: RedisRulesOptions<unknown>,
  client: RedisClient = redis.client,
): Promise<{ readonly name: string; readonly rules: Rules; push(quota: number): Promise<unknown> }> {
  const name = anyName()
  const push = (quota: number): Promise<unknown> => pushRules(redis.client, api(quota), { name })
  await push(1)
  return { name, push, rules: await rulesOf(client, { name, ...options }) }
}

/** Returns the milliseconds until rules have a quota. */
async function timeUntil(rules: Rules, quota: number): Promise<number> {
  const before = performance.now()
  await until(async () => quotaOf(rules) === quota)
  return performance.now() - before
}

describe('a push to Redis', () => {
  it.each([
    ['YAML with comments', yaml(5), 'yaml'],
    ['YAML with a byte-order mark and Windows lines', `\uFEFF${yaml(5).replaceAll('\n', '\r\n')}é🎈`, 'yaml'],
    ['JSON with spaces', `\n ${JSON.stringify(api(5), undefined, 7)}\n`, 'json'],
  ])('is pulled as it was: %s', async (_, text, format) => {
    const name = anyName()
    const given = text.replace('é🎈', '# é🎈\n')
    const push = await pushRules(redis.client, given, { name, writer: 'ada@web-1' })
    expect(await pullRules(redis.client, { name })).toEqual({ text: given, format, ...push })
    expect(push).toMatchObject({ version: 1, writer: 'ada@web-1' })
    expect(Math.abs(push.pushedAt - Date.now())).toBeLessThan(60_000)
  })

  it('counts versions, and names the user and the host', async () => {
    const name = anyName()
    expect(await pullRules(redis.client, { name })).toBeUndefined()
    await pushRules(redis.client, api(1), { name })
    const second = await pushRules(redis.client, api(1), { name })
    expect(second).toMatchObject({ version: 2, writer: expect.stringMatching(/.@./) })
  })

  it('of two simultaneous writers, one is refused and learns who was first', async () => {
    const name = anyName()
    const { version } = await pushRules(redis.client, api(1), { name })
    const writers = Array.from({ length: 8 }, (_, i) => ({ client: connect(redis.server.port), writer: `writer-${i}` }))
    const results = await Promise.allSettled(
      writers.map(({ client, writer }, i) => pushRules(client, api(i + 10), { name, version, writer })),
    )
    const won = results.flatMap((each, i) => (each.status === 'fulfilled' ? [i] : []))
    expect(won).toHaveLength(1)
    const first = (results[won[0]!] as PromiseFulfilledResult<object>).value
    const refusals = results.flatMap((each) => (each.status === 'rejected' ? [each.reason as Error] : []))
    for (const refusal of refusals) {
      expect(refusal).toMatchObject({ code: 'RULES_CONFLICT', cause: first })
      expect(refusal.message).toMatch(
        new RegExp(`version ${version}, but writer-${won[0]} pushed version 2 at 20.*Z`, 'u'),
      )
    }
    expect(JSON.parse((await pullRules(redis.client, { name }))!.text)).toEqual(api(won[0]! + 10))
  })

  it('as the first of its name is refused where there is one, and the other way round', async () => {
    const name = anyName()
    const push = (version: number): Promise<object> => pushRules(redis.client, api(1), { name, version })
    const message = expect.stringContaining('there is none')
    await expect(push(3)).rejects.toMatchObject({ code: 'RULES_CONFLICT', message })
    await push(0)
    await expect(push(0)).rejects.toMatchObject({ code: 'RULES_CONFLICT' })
  })

  it('with mistakes writes nothing, and reports all of them', async () => {
    const name = anyName()
    const text = 'policies:\n  - name: a\n    kye: ip\n    limits: []\n'
    await expect(pushRules(redis.client, text, { name })).rejects.toMatchObject({
      code: 'INVALID_RULES',
      message: expect.stringMatching(/kye[^]*limits/),
    })
    await expect(pushRules(redis.client, 'a: [', { name })).rejects.toMatchObject({ code: 'INVALID_RULES' })
    expect(await pullRules(redis.client, { name })).toBeUndefined()
  })

  it.each([
    [{ name: '' }, 'INVALID_OPTION'],
    [{ name: 'a b' }, 'INVALID_OPTION'],
    [{ version: -1 }, 'INVALID_OPTION'],
    [{ format: 'toml' }, 'INVALID_OPTION'],
    [{ writer: 'w'.repeat(257) }, 'INVALID_OPTION'],
    [{ nmae: 'a' }, 'UNKNOWN_OPTION'],
  ])('refuses %o', async (options, code) => {
    await expect(pushRules(redis.client, yaml(1), options as object)).rejects.toMatchObject({ code })
  })

  it('to a server that is gone fails with its error', async () => {
    const client = connect(1, { retryStrategy: null, maxRetriesPerRequest: 0 })
    await expect(pushRules(client, api(1))).rejects.toMatchObject({ code: 'RULES_UNREACHABLE' })
    await expect(pullRules(client)).rejects.toMatchObject({ code: 'RULES_UNREACHABLE' })
  })

  it('with a user that may not write fails with the error of the server', async () => {
    await redis.client.call('ACL', 'SETUSER', 'reader', 'on', '>x', '~*', '+@read', '+evalsha', '+eval')
    await expect(
      pushRules(connect(redis.server.port, { username: 'reader', password: 'x', enableReadyCheck: false }), api(1)),
    ).rejects.toMatchObject({
      code: 'RULES_UNREACHABLE',
      message: expect.stringMatching(
        /^The rules in Redis could not be read or written\. .*can't run this command/,
      ) as string,
    })
  })
})

describe('the history of pushes', () => {
  const versionsOf = async (name: string): Promise<readonly number[]> =>
    (await rulesHistory(redis.client, { name })).map(({ version }) => version)

  it('has each document with its writer and time, the newest first', async () => {
    const name = anyName()
    expect(await rulesHistory(redis.client, { name })).toEqual([])
    const first = await pushRules(redis.client, yaml(1), { name, writer: 'ada@web-1' })
    const second = await pushRules(redis.client, api(2), { name, writer: 'bob' })
    expect(await rulesHistory(redis.client, { name })).toEqual([
      { ...second, text: JSON.stringify(api(2), undefined, 2), format: 'json' },
      { ...first, text: yaml(1), format: 'yaml' },
    ])
  })

  it('has the document that a version without a history has pushed', async () => {
    const name = anyName()
    await pushRules(redis.client, api(1), { name })
    await redis.client.hdel(`sluice::rules:${name}`, 'restores')
    await pushRules(redis.client, api(2), { name })
    expect(await versionsOf(name)).toEqual([2, 1])
    expect(await rollbackRules(redis.client, { name })).toMatchObject({ version: 3, restores: 1 })
  })

  it('has at most 50 documents, and deletes those before', async () => {
    const name = anyName()
    for (let i = 1; i <= 53; i++) await pushRules(redis.client, api(i), { name })
    expect(await versionsOf(name)).toEqual(Array.from({ length: 50 }, (_, i) => 53 - i))
    expect(await redis.client.hlen(`sluice::rules:${name}`)).toBe(8 + 49 * 5)
  }, 20_000)

  it.each([
    [2 ** 20, 2],
    [2 ** 19, 3],
    [2 ** 19 + 1, 2],
    [300_000, 4],
  ])('has at most 1 MiB of texts before the current one: of %i bytes, %i documents', async (bytes, count) => {
    const name = anyName()
    for (let i = 1; i <= 5; i++) await pushRules(redis.client, JSON.stringify(api(i)).padEnd(bytes), { name })
    expect(await versionsOf(name)).toEqual([5, 4, 3, 2, 1].slice(0, count))
    expect(await redis.client.hlen(`sluice::rules:${name}`)).toBe(8 + (count - 1) * 5)
  })
})

describe('rollbackRules', () => {
  it('pushes the document before, and each further one goes back by one more', async () => {
    const name = anyName()
    for (const quota of [1, 2, 3]) await pushRules(redis.client, yaml(quota), { name })
    const rules = await rulesOf(redis.client, { name })
    const back = (options: object = {}): Promise<object> => rollbackRules(redis.client, { name, ...options })
    expect(await back({ writer: 'ada' })).toMatchObject({ version: 4, restores: 2, writer: 'ada' })
    expect(await pullRules(redis.client, { name })).toMatchObject({ version: 4, restores: 2, text: yaml(2) })
    await timeUntil(rules, 2)
    expect(await back()).toMatchObject({ version: 5, restores: 1 })
    await timeUntil(rules, 1)
    await expect(back()).rejects.toMatchObject({
      code: 'RULES_NOT_KEPT',
      message: expect.stringContaining('Version 0 of the rules is not kept. Redis has 5, 4, 3, 2, 1'),
    })
    expect(await back({ version: 3 })).toMatchObject({ version: 6, restores: 3 })
    await timeUntil(rules, 3)
    expect(await pushRules(redis.client, api(7), { name })).not.toHaveProperty('restores')
    expect(await back()).toMatchObject({ version: 8, restores: 6 })
  })

  it('writes nothing if a colleague pushes at the same time', async () => {
    const name = anyName()
    for (const quota of [1, 2]) await pushRules(redis.client, api(quota), { name })
    const client = connect(redis.server.port)
    const send = client.evalsha.bind(client) as (...args: unknown[]) => Promise<unknown>
    client.evalsha = (async (...args: unknown[]) => {
      if (args.includes('push')) await pushRules(redis.client, api(9), { name, writer: 'bob' })
      return send(...args)
    }) as never
    await expect(rollbackRules(client, { name })).rejects.toMatchObject({
      code: 'RULES_CONFLICT',
      message: expect.stringContaining('are version 2, but bob pushed version 3'),
    })
    expect((await rulesHistory(redis.client, { name })).map(({ version }) => version)).toEqual([3, 2, 1])
    expect(JSON.parse((await pullRules(redis.client, { name }))!.text)).toEqual(api(9))
  })

  it.each([
    [{ version: 0 }, 'INVALID_OPTION'],
    [{ version: 9 }, 'RULES_NOT_KEPT'],
    [{ name: 'nothing-here' }, 'RULES_NOT_KEPT'],
    [{ verison: 1 }, 'UNKNOWN_OPTION'],
  ])('refuses %o', async (options, code) => {
    await pushRules(redis.client, api(1), { name: 'refused' })
    await expect(rollbackRules(redis.client, { name: 'refused', ...options })).rejects.toMatchObject({ code })
  })

  it('refuses a document that has mistakes by now', async () => {
    const name = anyName()
    for (const quota of [1, 2]) await pushRules(redis.client, api(quota), { name })
    await redis.client.hset(`sluice::rules:${name}`, '1:text', '{ "policies": [{}] }')
    await expect(rollbackRules(redis.client, { name })).rejects.toMatchObject({ code: 'INVALID_RULES' })
  })
})

describe.each(families)('rulesFromRedis with $name', (family) => {
  it.each(['single', 'cluster'] as const)('has a push within a second: %s', async (kind) => {
    const port = kind === 'single' ? redis.server.port : cluster.nodes[0]!.port
    const [one, other] = [await family[kind](port), await family[kind](port)]
    afterTest(
      () => one.close(),
      () => other.close(),
    )
    const name = `${family.name.replaceAll(/\W/g, '-')}-${kind}`
    await pushRules(one.client, yaml(1), { name })
    const rules = await rulesOf(other.client, { name })
    expect([quotaOf(rules), rules.current.version]).toEqual([1, 1])
    for (const quota of [2, 3]) {
      const changed: number[] = []
      rules.once('change', ({ after }) => void changed.push(after.version))
      await pushRules(one.client, yaml(quota), { name })
      expect(await timeUntil(rules, quota)).toBeLessThan(1500)
      expect(changed).toEqual([quota])
    }
    expect((await pullRules(one.client, { name }))!.text).toBe(yaml(3))
  })
})

describe('rulesFromRedis', () => {
  it('works with the prefixes of clients, and with its own', async () => {
    const name = anyName()
    const ioredis = connect(redis.server.port, { keyPrefix: 'team:' })
    await pushRules(ioredis, api(1), { name, prefix: 'app:' })
    expect(await redis.client.exists(`team:app::rules:${name}`)).toBe(1)
    const rules = await rulesOf(ioredis, { name, prefix: 'app:', pollInterval: '1h' })
    await pause(300)
    await pushRules(ioredis, api(2), { name, prefix: 'app:' })
    expect(await timeUntil(rules, 2)).toBeLessThan(1500)
  })

  it('finds a push by polling where the server permits no subscription and no announcement', async () => {
    const name = anyName()
    await redis.client.call('ACL', 'SETUSER', 'mute', 'on', '>x', '~*', '+@all', '-@pubsub', 'resetchannels')
    const mute = connect(redis.server.port, { username: 'mute', password: 'x' })
    await pushRules(mute, api(1), { name })
    const rules = await rulesOf(mute, { name, pollInterval: '300ms' })
    const rare = await rulesOf(mute, { name, pollInterval: '1h' })
    await pause(300)
    await pushRules(mute, api(2), { name })
    expect(await timeUntil(rules, 2)).toBeLessThan(1500)
    await pause(500)
    expect(quotaOf(rare)).toBe(1)
  })

  it.each([{}, { autoResubscribe: false }])(
    'has announcements again after its connection was lost: %j',
    async (given) => {
      const { rules, push } = await started({ pollInterval: '1h' }, connect(redis.server.port, given))
      await pause(300)
      await redis.client.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
      await push(2)
      await until(async () => quotaOf(rules) === 2)
      await push(3)
      expect(await timeUntil(rules, 3)).toBeLessThan(1500)
    },
  )

  it('reports a stored document with mistakes once, and keeps the last good one', async () => {
    const { name, rules, push } = await started({ pollInterval: '50ms' })
    const problems: string[] = []
    rules.on('invalid', (event) => void problems.push(event.problems[0]!.message))
    const key = `sluice::rules:${name}`
    await redis.client.hset(key, { version: '2', identity: 'broken', json: '{"policies":[{}]}' })
    await pause(400)
    expect(problems).toHaveLength(1)
    await redis.client.hset(key, { version: '3', identity: 'large', json: ' '.repeat(2 ** 20 + 1) })
    await until(async () => problems.length === 2)
    expect([problems[1], quotaOf(rules)]).toEqual(['expected at most 1 MiB of JSON, got more', 1])
    await push(2)
    await until(async () => quotaOf(rules) === 2)
    expect(rules.current.version).toBe(4)
  })

  it('starts with the fallback while there is no document, and has it once it is pushed', async () => {
    const name = anyName()
    await expect(rulesFromRedis(redis.client, { name })).rejects.toMatchObject({
      code: 'RULES_UNREACHABLE',
      message: expect.stringContaining(`Redis has no rules named "${name}"`),
    })
    const rules = await rulesOf(redis.client, { name, fallback: api(7) })
    expect([quotaOf(rules), rules.current.version]).toEqual([7, 0])
    await pushRules(redis.client, api(8), { name })
    expect(await timeUntil(rules, 8)).toBeLessThan(1500)
  })

  it('has the version of the newest push, also if its content is the same', async () => {
    const name = anyName()
    const rules = await rulesOf(redis.client, { name, fallback: api(7) })
    const changes: unknown[] = []
    rules.on('change', (change) => changes.push(change))
    const { loadedAt } = rules.current
    await pushRules(redis.client, api(7), { name })
    await until(async () => rules.current.version === 1)
    await pushRules(redis.client, '# reviewed\npolicies: ' + JSON.stringify(api(7).policies), { name })
    await until(async () => rules.current.version === 2)
    expect([quotaOf(rules), rules.current.loadedAt, changes]).toEqual([7, loadedAt, []])
  })

  it('leaves nothing behind after close, and after a failed start', async () => {
    const connections = async (): Promise<number> =>
      String(await redis.client.client('LIST'))
        .split('\n')
        .filter(Boolean).length
    const name = anyName()
    const node = await createClient({ url: redis.server.url }).connect()
    afterTest(() => node.destroy())
    const before = await connections()
    for (const client of [redis.client, node]) {
      await pushRules(client as RedisClient, api(1), { name })
      const rules = await rulesFromRedis(client as RedisClient, { name })
      await until(async () => (await connections()) === before + 1)
      await rules.close()
      await until(async () => (await connections()) === before)
      await expect(rulesFromRedis(client as RedisClient, { name: 'none' })).rejects.toThrow('no rules')
      await until(async () => (await connections()) === before)
      await pushRules(client as RedisClient, api(2), { name })
      await pause(200)
      expect(quotaOf(rules)).toBe(1)
    }
  })

  describe('whose Redis is restarted empty', () => {
    /** Returns rules of a server, what they report, and what the dashboard shows about them. */
    async function lost(name: string, pollInterval: Duration = '10s') {
      const started = await startServer()
      const client = connect(started.port)
      await pushRules(client, api(2), { name })
      const rules = await rulesOf(client, { name, pollInterval })
      const events: string[] = []
      rules.on('unreachable', ({ error }) => void events.push(String(error)))
      rules.on('recovered', ({ current }) => void events.push(`recovered: version ${current.version}`))
      rules.on('change', ({ after }) => void events.push(`change to ${after.version}`))
      const states = new States({}, [rules])
      onTestFinished(() => states.close())
      return { started, client, rules, events, problem: () => states.rules[0]!.problem }
    }
    const missing = (name: string): string =>
      `Error: Redis has no rules named "${name}". Push them with \`npx sluice rules push\``

    it.each([
      ['was not noticed', '10s'],
      ['was reported', '100ms'],
    ] as const)('warn after an outage that %s, until the same document is pushed', async (_, interval) => {
      const name = anyName()
      const { started, rules, events, problem } = await lost(name, interval)
      const codes = await warningsOf(async () => {
        await started.kill()
        if (interval === '100ms') await until(async () => events.length > 0)
        await started.restart()
        const back = performance.now()
        await until(async () => events.includes(missing(name)))
        expect(problem()).toContain('The source cannot be read.')
        expect(performance.now() - back).toBeLessThan(4000)
        expect(quotaOf(rules)).toBe(2)
        await pushRules(connect(started.port), api(2), { name })
        const pushed = performance.now()
        await until(async () => problem() === '')
        expect(performance.now() - pushed).toBeLessThan(1500)
      })
      expect(events.slice(-2)).toEqual([missing(name), 'recovered: version 1'])
      const codesOfRules = codes.filter((code) => code.startsWith('SLUICE_RULES'))
      expect(codesOfRules.slice(-2)).toEqual(['SLUICE_RULES_UNREACHABLE', 'SLUICE_RULES_RECOVERY'])
      // A read may fail before the server is back.
      expect(codesOfRules.length).toBeLessThan(4)
    })

    it('are read again within seconds after an outage that the subscription has not seen', async () => {
      const name = anyName()
      const { started, client } = await lost(name)
      const rare = await rulesOf(client, { name, pollInterval: '2s' })
      const events: string[] = []
      rare.on('unreachable', () => void events.push('unreachable'))
      // One read fails on the server that still answers.
      await client.call('RENAME', `sluice::rules:${name}`, 'elsewhere')
      await until(async () => events.length > 0)
      await client.call('RENAME', 'elsewhere', `sluice::rules:${name}`)
      const back = performance.now()
      rare.on('recovered', () => void events.push('recovered'))
      await until(async () => events.includes('recovered'))
      expect(performance.now() - back).toBeLessThan(1500)
      await started.stop()
    })
  })

  it('reports missing rules again each minute, and an outage at most once a minute', async () => {
    const { name, rules } = await started({ pollInterval: '50ms' })
    let reports = 0
    rules.on('unreachable', () => void reports++)
    vi.useFakeTimers({ toFake: ['performance'] })
    onTestFinished(() => void vi.useRealTimers())
    await redis.client.del(`sluice::rules:${name}`)
    for (const expected of [1, 2, 3]) {
      await vi.waitUntil(() => reports === expected, { timeout: 3000 })
      await pause(300)
      expect(reports).toBe(expected)
      vi.advanceTimersByTime(60_000)
    }
  })

  it('reports a server that does not answer once, and its documents once it does', async () => {
    const client = connect(redis.server.port, { maxRetriesPerRequest: null })
    const { rules, push } = await started({ pollInterval: '100ms' }, client)
    let lost = 0
    rules.on('unreachable', () => void lost++)
    redis.server.process.kill('SIGSTOP')
    try {
      for (let tries = 0; tries < 400 && lost === 0; tries++) await pause(20)
      await pause(200)
    } finally {
      redis.server.process.kill('SIGCONT')
    }
    expect(lost).toBe(1)
    await push(2)
    await until(async () => quotaOf(rules) === 2)
  })

  it('ends an override by the clock of the server', async () => {
    const end = new Date(Date.now() + 1500).toISOString()
    const limits = [{ algorithm: 'fixedWindow', quota: 9, window: '1h' }]
    const overrides = [{ key: 'everyone', limits: [{ quota: 7 }], until: end }]
    const rules = createRules({ policies: [{ name: 'all', key: 'everyone', limits, overrides }] })
    const limiter = createLimiter({ rules, store: redisStore(redis.client, { prefix: 'until:' }) })
    expect((await limiter.consume({})).remaining).toBe(6)
    await until(async () => (await limiter.peek({}, { cost: 0 })).limits[0]!.remaining === 8)
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(end))
  })

  it('refuses what is no client, and wrong options', async () => {
    await expect(rulesFromRedis({} as RedisClient)).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    await expect(rulesFromRedis(redis.client, { prefx: '' } as object)).rejects.toMatchObject({
      code: 'UNKNOWN_OPTION',
      message: expect.stringMatching(/^rulesFromRedis has no option .*Did you mean "prefix"\?/) as string,
    })
    await expect(rulesFromRedis(redis.client, { pollInterval: 0 })).rejects.toMatchObject({ code: 'INVALID_OPTION' })
  })
})
