// A PostgreSQL that is being stopped ends each connection in the packet that opens it.
import { createServer, type Server } from 'node:net'
import { Pool } from 'pg'
import { expect, test } from 'vitest'
import { createLimiter, perMinute } from '../../../src/index.ts'
import { postgresStore } from '../../../src/stores/postgres.ts'
import { afterTest } from '../../support/after-test.ts'

/** A message of PostgreSQL's protocol. */
function message(type: string, body: Buffer): Buffer {
  const head = Buffer.alloc(5)
  head.write(type)
  head.writeInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}

const OPENED_AND_ENDED = Buffer.concat([
  message('R', Buffer.alloc(4)),
  message('Z', Buffer.from('I')),
  message('E', Buffer.from('SFATAL\0C57P01\0Mterminating connection due to administrator command\0\0')),
])

async function endingServer(): Promise<number> {
  const server: Server = createServer((socket) => {
    socket.on('error', () => undefined).once('data', () => socket.end(OPENED_AND_ENDED))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  afterTest(() => server.close())
  return (server.address() as { port: number }).port
}

test.each([2, 10])('are failures of decisions, and end no process, in a pool of %d', async (max) => {
  const pool = new Pool({ host: '127.0.0.1', port: await endingServer(), user: 'any', database: 'any', max })
  const store = postgresStore(pool, { table: 'limits' })
  const limiter = createLimiter({ keyer: (key: string) => key, limits: perMinute(5), store })
  for (let i = 0; i < 3; i++) await expect(limiter.consume('ann')).rejects.toMatchObject({ code: 'STORE_FAILED' })
})
