import { describe, expect, test } from 'vitest'
import { allowedRequests } from '../../../src/http/keys/networks.ts'

const isAllowed = (allow: readonly string[], address: string | undefined): boolean =>
  allowedRequests<string | undefined>({ allow }, { getAddress: (request) => request })!(address)

describe('allow', () => {
  test.each([
    ['192.0.2.7', '192.0.2.7', true],
    ['192.0.2.7', '192.0.2.8', false],
    ['192.0.2.7/32', '192.0.2.7:443', true],
    ['10.0.0.0/8', '10.255.255.255', true],
    ['10.1.2.3/8', '10.9.9.9', true],
    ['10.0.0.0/8', '11.0.0.0', false],
    ['10.0.0.0/8', '::ffff:10.0.0.1', true],
    ['8.8.8.0/24', '64:ff9b::8.8.8.8', true],
    ['10.0.0.0/8', '64:ff9b::10.0.0.1', false],
    ['64:ff9b::10.0.0.1', '64:ff9b::10.0.0.1', true],
    ['64:ff9b:1::/48', '64:ff9b:1::10.0.0.1', true],
    ['::ffff:10.0.0.0/104', '10.9.9.9', true],
    ['::ffff:10.0.0.0/104', '11.0.0.1', false],
    ['::ffff:0:0/97', '103.0.113.9', true],
    ['0.0.0.0/1', '103.0.113.9', true],
    ['0.0.0.0/1', '2001:db8::1', false],
    ['::/1', '2001:db8::1', true],
    ['::/1', '103.0.113.9', false],
    ['2001:db8::/32', '[2001:DB8:ffff::1%eth0]:443', true],
    ['2001:db8::/32', '2001:db9::1', false],
    ['2001:db8::1', '2001:db8::2', false],
    ['fe80::/10', 'fe80::1%eth0', true],
  ])('%s contains %s: %s', (network, address, allowed) => {
    expect(isAllowed([network], address)).toBe(allowed)
    expect(isAllowed(['198.51.100.0/24', network], address)).toBe(allowed)
  })

  test.each([undefined, '', 'unknown', 'x'.repeat(1e6)])('does not contain what is no address: %.20s', (address) =>
    expect(isAllowed(['0.0.0.0/1', '::/1'], address)).toBe(false),
  )

  test.each([
    ['an address with a leading zero', '010.0.0.1'],
    ['a short address', '10.1'],
    ['a number', '1'],
    ['a name', 'localhost'],
    ['nothing', ''],
    ['spaces', ' 10.0.0.1'],
    ['a prefix that is too long', '10.0.0.0/33'],
    ['an IPv6 prefix that is too long', '::/129'],
    ['a negative prefix', '10.0.0.0/-1'],
    ['a netmask', '10.0.0.0/255.0.0.0'],
    ['no prefix after the slash', '10.0.0.0/'],
    ['two prefixes', '10.0.0.0/8/8'],
    ['a mapped network that contains more than IPv4', '::ffff:10.0.0.0/8'],
    ['a NAT64 network, whose clients are known by their IPv4 address', '64:ff9b::/96'],
    ['a NAT64 network of private addresses', '64:ff9b::10.0.0.0/104'],
    ['a translated network', '::ffff:0:0:0/96'],
    ['a range', '10.0.0.1-10.0.0.9'],
    ['every address of IPv4', '0.0.0.0/0'],
    ['every address of IPv4, with an address before the prefix', '10.1.2.3/0'],
    ['every address of IPv4 as a mapped network', '::ffff:0:0/96'],
    ['every address of IPv6', '::/0'],
  ])('refuses %s', (_, text) => {
    expect(() => isAllowed(['::1', text], undefined)).toThrow(
      expect.objectContaining({ code: 'INVALID_OPTION', message: expect.stringMatching(/^allow\[1\]: /) as string }),
    )
  })

  test('refuses values that are no texts', () => {
    for (const allow of ['10.0.0.1', {}, 5, null])
      expect(() => isAllowed(allow as never, undefined)).toThrow(/^allow: expected an array/)
    expect(() => isAllowed([10 as never], undefined)).toThrow(/^allow\[0\]: /)
  })

  test('needs an address, and `address` needs it', () => {
    expect(() => allowedRequests({ allow: ['::1'] }, {})).toThrow(
      /^allow: expected the option `address` together with it/,
    )
    expect(() => allowedRequests({ address: () => '::1' }, {})).toThrow(
      /^address: expected the option `allow` together with it/,
    )
    const fromRest = { allow: ['::1'], address: (_request: string, server: never) => String(server) }
    expect(allowedRequests(fromRest, { getRest: () => ['::1'] })!('')).toBe(true)
    expect(allowedRequests({}, {})).toBeUndefined()
  })
})
