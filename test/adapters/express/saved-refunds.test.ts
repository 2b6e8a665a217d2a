// "Only failed logins count": responses that are delayed and end all at once do not let more wrong passwords through.
import http, { type IncomingMessage } from 'node:http'
import express from 'express'
import { describe, expect, it } from 'vitest'
import { rateLimit } from '../../../adapters/express/index.ts'
import { everyone, gcra, leakyBucket, type Limit, memoryStore, quotaLinear, tokenBucket } from '../../../src/index.ts'
import { virtualClock } from '../../../src/testing.ts'
import { listen } from '../framework.ts'

const five = { quota: 5, window: '5s' } as const

function send(port: number, password: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const path = `/login/${password}`
    const request = http.request({ port, host: '127.0.0.1', method: 'POST', path, agent: false })
    request.on('response', (response) => resolve(response.resume())).on('error', reject)
    request.end()
  })
}

/** Returns how many wrong passwords reach the handler after 40 correct ones whose responses were delayed. */
async function wrongPasswords(limits: Limit): Promise<number> {
  const clock = virtualClock()
  const held: (() => void)[] = []
  let wrong = 0
  let arrived = (): void => undefined
  const app = express()
  app.use(rateLimit({ keyer: everyone, limits, store: memoryStore({ clock }), refundWhen: 'success' }))
  app.post('/login/:password', ({ params }, response) => {
    if (params.password !== 'right') {
      wrong++
      response.sendStatus(401)
      return
    }
    held.push(() => response.sendStatus(200))
    arrived()
  })
  const { port } = await listen(http.createServer(app))

  const answers: Promise<IncomingMessage>[] = []
  for (let i = 0; i < 40; i++) {
    clock.advance(5000)
    const arrival = new Promise<void>((resolve) => (arrived = resolve))
    answers.push(send(port, 'right'))
    await arrival
  }
  for (const [i, release] of held.entries()) {
    const { statusCode } = await send(port, 'wrong')
    expect([401, 429]).toContain(statusCode)
    release()
    await answers[i]
  }
  for (let i = 0; i < 10; i++) await send(port, 'wrong')
  return wrong
}

describe('refundWhen: success under 5 per 5 s lets through at most five wrong passwords in an instant', () => {
  it.each([
    ['gcra', gcra(five)],
    ['tokenBucket', tokenBucket(five)],
    ['tokenBucket, by the interval', tokenBucket({ ...five, refill: 'interval' })],
    ['leakyBucket', leakyBucket({ ...five, shape: false })],
    ['quotaLinear', quotaLinear(five)],
  ])('%s', async (_, limits) => {
    const wrong = await wrongPasswords(limits)
    expect(wrong).toBeGreaterThanOrEqual(4)
    expect(wrong).toBeLessThanOrEqual(5)
  })
})
