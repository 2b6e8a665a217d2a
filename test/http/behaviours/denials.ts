import { ask, limitHeaders } from '../../../src/testing/adapter/client.ts'
import { BROWSER, denied, HTML } from '../../../src/testing/adapter/denial-cases.ts'
import { type Cases, one, outageStore } from '../../../src/testing/adapter/world.ts'
import { equal, holds, like } from '../../../src/testing/behaviour.ts'

export const denialCases: Cases = {
  'sends plain text to a client that accepts no JSON': async ({ limit, serve }) => {
    const server = await serve({ limits: [limit(one)] })
    await ask(server)
    const { status, headers, body } = await ask(server, '/', { headers: { accept: 'text/plain' } })
    equal([status, headers['content-type']], [429, 'text/plain; charset=utf-8'])
    equal(body, 'You can send one request per minute. Try again in 1 minute.\n')
    equal(headers['retry-after'], '60')
    const both = await ask(server, '/', { headers: { accept: 'text/plain, */*' } })
    equal(both.headers['content-type'], 'application/problem+json')
  },
  'has no Retry-After when the request is never admitted': async ({ limit, serve }) => {
    const { status, headers } = await ask(await serve({ limits: [limit(one, { cost: () => 2 })] }))
    equal([status, headers['retry-after']], [429, undefined])
  },
  'is a page only for a client that accepts HTML and does not name JSON': async (world) => {
    const server = await world.serve({ limits: [world.limit(one)] })
    await ask(server)
    for (const [accept, type] of [
      ['*/*', 'application/problem+json'],
      ['application/json, text/html', 'application/problem+json'],
      ['text/html;q=0.5, */*;q=0.4', HTML],
    ] as const) {
      const { headers } = await ask(server, '/', { headers: { accept } })
      equal([headers['content-type'], headers['vary']], [type, 'Accept'], accept)
    }
  },
  'is the message, as JSON': async (world) => {
    const { status, headers, body } = await denied(world, { message: { error: 'zu früh', code: 7 } })
    equal([status, headers['content-type']], [429, 'application/json'])
    equal(JSON.parse(body), { error: 'zu früh', code: 7 })
  },
  'has the given status': async (world) => {
    for (const statusCode of [400, 403, 503, 599]) {
      const plain = await denied(world, { statusCode })
      equal(plain.status, statusCode)
      like(JSON.parse(plain.body), { status: statusCode, title: 'Quota Exceeded' })
      like(limitHeaders(plain), { 'retry-after': '60', ratelimit: '"one";r=0;t=60' })
      const { status, body } = await denied(world, { statusCode, message: 'no' })
      equal([status, body], [statusCode, 'no'])
    }
  },
  'with onOutage closed has neither the given status nor the message': async (world) => {
    const options = { store: outageStore(world, 'closed'), statusCode: 403, message: 'too many' }
    const reply = await ask(await world.serve({ limits: [world.limit(one, options)] }))
    equal([reply.status, reply.headers['content-type']], [503, 'application/problem+json'])
    const page = await ask(await world.serve({ limits: [world.limit(one, options)] }), '/', {
      headers: { accept: BROWSER },
    })
    equal([page.status, page.headers['content-type']], [503, HTML])
    holds(page.body.includes('<title>503 Service unavailable</title>'), page.body)
  },
}
