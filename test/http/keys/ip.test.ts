import * as fc from 'fast-check'
import ipaddr from 'ipaddr.js'
import { isIPv4, isIPv6 } from 'node:net'
import { expect, test } from 'vitest'
import { isPublicIPv4, readIPv4, readIPv6, writeIPv6 } from '../../../src/http/keys/ip.ts'

/** More than the default of a property: `RUNS=300000` compares as many addresses. */
const numRuns = Math.max(5000, Number(process.env['RUNS'] ?? 0))

/** Groups with many zeros, so that there are runs of them. */
const groups = fc.array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 0xffff })), { minLength: 8, maxLength: 8 })

test('writes IPv6 addresses as ipaddr.js does, and reads them again', () => {
  fc.assert(
    fc.property(groups, (parts) => {
      const text = writeIPv6(parts)
      return text === new ipaddr.IPv6(parts).toString() && String(readIPv6(text)) === String(parts)
    }),
    { numRuns },
  )
})

test('reads what node:net takes for an address, and nothing else', () => {
  const piece = fc.oneof(
    fc.constantFrom(':', '::', '.', '0', '01', '1.2.3.4', '255', '256', 'ffff', 'fffff', 'g', ' ', '%'),
    fc.constantFrom(...'0123456789abcdefABCDEF'.split('')),
  )
  const gap = fc
    .tuple(fc.array(fc.constantFrom('0', '1', 'ffff'), { minLength: 5, maxLength: 9 }), fc.nat(9))
    .map(([all, at]) => `${all.slice(0, at).join(':')}::${all.slice(at).join(':')}`)
  const octet = fc.constantFrom('0', '00', '01', '9', '10', '99', '100', '199', '249', '255', '256', '300', '')
  const four = fc.array(octet, { minLength: 3, maxLength: 5 }).map((all) => all.join('.'))
  const near = fc.oneof(
    gap,
    four,
    fc.array(piece, { maxLength: 20 }).map((all) => all.join('')),
    fc.ipV4(),
    fc.ipV6(),
  )
  fc.assert(
    fc.property(near, (text) => {
      const isRead6 = readIPv6(text) !== undefined
      return (readIPv4(text) !== undefined) === isIPv4(text) && isRead6 === (isIPv6(text) && !text.includes('%'))
    }),
    { numRuns },
  )
})

test('reads an IPv4 tail', () => {
  fc.assert(
    fc.property(fc.ipV4(), (tail) => {
      const bits = ipaddr.IPv4.parse(tail).octets.reduce((sum, octet) => sum * 256 + octet, 0)
      const groupsRead = [0x64, 0xff9b, 0, 0, 0, 0, bits >>> 16, bits & 0xffff]
      return readIPv4(tail) === bits && String(readIPv6(`64:ff9b::${tail}`)) === String(groupsRead)
    }),
    { numRuns },
  )
})

test('knows the public IPv4 addresses that ipaddr.js knows, at each edge of a network and in between', () => {
  const isPublic = (bits: number): boolean =>
    new ipaddr.IPv4([bits >>> 24, (bits >>> 16) & 255, (bits >>> 8) & 255, bits & 255]).range() === 'unicast'
  // Its types leave this table out.
  const special = Reflect.get(ipaddr.IPv4.prototype, 'SpecialRanges') as Record<string, [ipaddr.IPv4, number][]>
  const edges = Object.values(special)
    .flat()
    .flatMap(([{ octets }, length]) => {
      const first = octets.reduce((sum, octet) => sum * 256 + octet, 0)
      return [first - 1, first, first + 2 ** (32 - length) - 1, first + 2 ** (32 - length)]
    })
    .filter((bits) => bits >= 0 && bits < 2 ** 32)
  expect(edges.length).toBeGreaterThan(60)
  for (const bits of edges) expect([bits, isPublicIPv4(bits)]).toEqual([bits, isPublic(bits)])
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2 ** 32 - 1 }), (bits) => isPublicIPv4(bits) === isPublic(bits)),
    { numRuns },
  )
})
