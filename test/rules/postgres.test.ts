import { on } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { type Rules, type RulesDocument, rulesFrom } from '../../src/rules/index.ts'
import { type PostgresServer, startPostgres } from '../support/postgres.ts'
import { warningsOf } from '../support/http.ts'
import { until } from '../support/redis-tests.ts'

let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
  await query(
    `CREATE TABLE rules (version bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, document jsonb NOT NULL)`,
    `CREATE FUNCTION rules_changed() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NOTIFY rules; RETURN NULL; END'`,
    `CREATE TRIGGER rules_changed AFTER INSERT OR UPDATE OR DELETE ON rules EXECUTE FUNCTION rules_changed()`,
  )
  await insert(1)
}, 120_000)
afterAll(() => server.remove())

const limitedTo = (quota: number): RulesDocument => ({
  policies: [{ name: 'api', key: 'ip', limits: [{ quota, window: '1h' }] }],
})
const quotaOf = (rules: Rules): number => rules.current.policies[0]!.limits![0]!.quota

/** Makes queries on a connection of their own. Returns the rows of the last one. */
async function query(...texts: readonly string[]): Promise<readonly unknown[]> {
  const client = new Client(server.url)
  await client.connect()
  try {
    let rows: readonly unknown[] = []
    for (const text of texts) rows = (await client.query(text)).rows
    return rows
  } finally {
    await client.end()
  }
}

const insert = (quota: number): Promise<unknown> =>
  query(`INSERT INTO rules (document) VALUES ('${JSON.stringify(limitedTo(quota))}')`)

/** The source of docs/guides/rules.md: the newest document of the table, and each after it. */
async function* documents(signal: AbortSignal): AsyncGenerator {
  const client = new Client(server.url)
  // A lost connection is reported more than once. The first report ends the loop below.
  client.on('error', () => undefined)
  await client.connect()
  try {
    const notifications = on(client, 'notification', { signal })
    await client.query('LISTEN rules')
    yield await newest(client)
    for await (const _ of notifications) yield await newest(client)
  } finally {
    await client.end()
  }
}

async function newest(client: Client): Promise<unknown> {
  const { rows } = await client.query('SELECT document FROM rules ORDER BY version DESC LIMIT 1')
  return rows[0].document
}

async function started(): Promise<Rules> {
  const rules = await rulesFrom(documents)
  onTestFinished(() => rules.close())
  return rules
}

describe('a table of PostgreSQL as the source', () => {
  it('is left without a connection after close', async () => {
    const connections = async (): Promise<number> =>
      (await query(`SELECT FROM pg_stat_activity WHERE backend_type = 'client backend'`)).length
    const rules = await rulesFrom(documents)
    expect(await connections()).toBe(2)
    await rules.close()
    await until(async () => (await connections()) === 1)
  })

  it('is read at the start, and with each notification', async () => {
    const [one, other] = [await started(), await started()]
    expect([quotaOf(one), quotaOf(other)]).toEqual([1, 1])
    for (const quota of [2, 3]) {
      const before = performance.now()
      await insert(quota)
      await until(async () => quotaOf(one) === quota && quotaOf(other) === quota)
      expect(performance.now() - before).toBeLessThan(1500)
    }
  })

  it('changes nothing with a document that has mistakes', async () => {
    const rules = await started()
    const before = quotaOf(rules)
    const codes = await warningsOf(async () => {
      await query(`INSERT INTO rules (document) VALUES ('{"policies":[{"name":"api"}]}')`)
      await pause(500)
    })
    expect([codes, quotaOf(rules)]).toEqual([['SLUICE_RULES_INVALID'], before])
    await insert(4)
    await until(async () => quotaOf(rules) === 4)
  })

  it('keeps the rules while the server is gone, and has what changed once it is back', async () => {
    const rules = await started()
    const events: string[] = []
    rules.on('unreachable', () => void events.push('unreachable'))
    rules.on('change', ({ after }) => void events.push(`quota ${after.policies[0]!.limits![0]!.quota}`))
    const before = quotaOf(rules)
    const codes = await warningsOf(async () => {
      await server.stop()
      await until(async () => events.length > 0)
      await pause(1500)
    })
    expect([codes, events, quotaOf(rules)]).toEqual([['SLUICE_RULES_UNREACHABLE'], ['unreachable'], before])
    await server.start()
    await insert(before + 1)
    await until(async () => quotaOf(rules) === before + 1)
    expect(events).toEqual(['unreachable', `quota ${before + 1}`])
  })
})
