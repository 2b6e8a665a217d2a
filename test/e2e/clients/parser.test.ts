// ratelimit-header-parser 0.1.0 reads the headers of every style that is older than itself.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { everyone, fixedWindow } from '../../../src/index.ts'
import { nodeFrameworks } from '../../adapters/node-frameworks.ts'
import { parseRateLimit } from '../../support/clients.ts'
import { ask, type Served } from '../../support/http.ts'

const styles = ['draft-6', 'draft-7', 'legacy', 'github', 'standard']

describe.each(nodeFrameworks)('ratelimit-header-parser, from $name, reads', ({ serve }) => {
  let server: Served
  beforeAll(async () => {
    const limits = fixedWindow({ quota: 2, window: '1h' })
    const handler = (): { text: string } => ({ text: 'ok' })
    const routes = styles.map((headers) => {
      return { path: `/${headers}`, limit: { keyer: everyone, limits, headers }, handler }
    })
    server = await serve({ limits: [], routes, handler })
  })
  afterAll(() => server.close())

  const read = async (style: string) =>
    parseRateLimit((await ask(server, `/${style}`)).headers as Record<string, string>)!

  test.each(styles.slice(0, 4))('%s, of what is admitted and of what is denied', async (style) => {
    for (const used of [1, 2, 2]) {
      const { reset, ...numbers } = await read(style)
      expect(numbers).toEqual({ limit: 2, used, remaining: 2 - used })
      expect(Math.abs(reset!.getTime() - Date.now() - 3_600_000)).toBeLessThan(10_000)
    }
  })

  test('also reads a Response of fetch', async () => {
    const response = await fetch(`${server.url}/draft-7`)
    expect(parseRateLimit(response)).toMatchObject({ limit: 2, remaining: 0 })
  })

  test('reads nothing in the newest style, which it does not support', async () => {
    expect(await read('standard')).toMatchObject({ limit: NaN, remaining: NaN })
  })
})
