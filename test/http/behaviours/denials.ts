import { ask, limitHeaders } from '../../../src/testing/adapter/client.ts'
import { BROWSER, denied, HTML } from '../../../src/testing/adapter/denial-cases.ts'
import { type Cases, one, outageStore } from '../../../src/testing/adapter/world.ts'
import { equal, holds, like } from '../../../src/testing/behaviour.ts'

export const denialCases: Cases = {
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
