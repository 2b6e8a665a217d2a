import { type CanActivate, Controller, Get } from '@nestjs/common'
import { APP_GUARD } from '@nestjs/core'
import { describe, expect, test } from 'vitest'
import {
  byHandler,
  byHeader,
  byIP,
  byMethod,
  byRoute,
  createRateLimitGuard,
  ipKeyer,
} from '../../../adapters/nestjs/index.ts'
import { type Decision, fixedWindow } from '../../../src/index.ts'
import { controllers, decorate, decorateClass, moduleOf, platforms, start, statuses } from './app.ts'

class Users {
  findOne(): string {
    return 'user'
  }
}
decorate(Users, 'findOne', Get(':id'))
decorateClass(Users, Controller('users'))

describe.each(Object.keys(platforms))('on %s', (platform) => {
  test('keyers return the keys of a request', async () => {
    const expected = [
      [byRoute, 'GET /users/:id'],
      [byMethod, 'GET'],
      [byIP, '127.0.0.1'],
      [byHandler, 'Users.findOne'],
      [ipKeyer({ address: () => '2001:db8::1', ipv6Subnet: 64 }), '2001:db8::/64'],
    ] as const
    const keys: (string | undefined)[] = []
    const onDecision = ({ limits: [first] }: Decision): void => void keys.push(first?.key)
    const guardWith = (keyer: (typeof expected)[number][0]): CanActivate =>
      createRateLimitGuard({ keyer, limits: fixedWindow({ quota: 9, window: '1h' }), onDecision })
    const app = moduleOf({
      controllers: [Users, ...controllers({})],
      providers: expected.map(([keyer]) => ({ provide: APP_GUARD, useValue: guardWith(keyer) })),
    })
    expect(await statuses(await start(app, { platform }), '/users/1', '/users/2')).toEqual([200, 200])
    const ofOne = expected.map(([, key]) => key)
    expect(keys).toEqual([...ofOne, ...ofOne])
  })
})

describe('for clients of gateways', () => {
  const socketIo = { handshake: { address: '2001:db8:0:1::1', headers: { 'x-user': 'ann' } } }
  const ws = { _socket: { remoteAddress: '::ffff:192.0.2.7' } }

  test('byIP is the address of the connection', () => {
    expect([byIP(socketIo), byIP(ws), byIP({ socket: { remoteAddress: '192.0.2.8' } })]).toEqual([
      '2001:db8::/56',
      '192.0.2.7',
      '192.0.2.8',
    ])
  })

  test('byHeader reads the handshake of socket.io, and nothing of ws', () => {
    expect([byHeader('X-User')(socketIo), byHeader('x-user')(ws)]).toEqual(['ann', undefined])
  })

  test('there is no method, no route, and no handler outside of a call', () => {
    expect([byMethod(ws), byRoute(ws), byHandler(ws)]).toEqual([undefined, undefined, undefined])
  })
})

test.each([{ ipv6Subnet: 24 }, { prefix: 64 }, { address: 'x-real-ip' }])('ipKeyer refuses %o', (options) => {
  expect(() => ipKeyer(options as never)).toThrow(
    expect.objectContaining({ code: expect.stringMatching(/^(INVALID|UNKNOWN)_OPTION$/) as string }),
  )
})
