import { isIP } from 'node:net'
import * as fc from 'fast-check'
import { Address4, Address6 } from 'ip-address'
import { describe, expect, test } from 'vitest'
import { addressKeyer, clientAddress } from '../../../src/http/keys/address.ts'

const key = addressKeyer()

describe('worked values', () => {
  test.each<[string | undefined, string | undefined]>([
    ['203.0.113.7', '203.0.113.7'],
    ['203.0.113.7:443', '203.0.113.7'],
    ['[2001:db8:1234:5678:9abc::1]:443', '2001:db8:1234:5600::/56'],
    ['2001:db8:1234:5678:9abc::1', '2001:db8:1234:5600::/56'],
    ['2001:db8::1:443', '2001:db8::/56'],
    ['fe80::1%eth0', 'fe80::/56'],
    ['::ffff:203.0.113.7', '203.0.113.7'],
    ['::ffff:cb00:7107', '203.0.113.7'],
    ['::1.2.3.4', '::/56'],
    [undefined, undefined],
    ['', undefined],
    ['undefined', undefined],
    ['unknown', undefined],
    ['_hidden', undefined],
    ['1', undefined],
    ['0x7f.0.0.1', undefined],
    ['1.2.3.4:', undefined],
    ['1.2.3.4:port', undefined],
    ['1.2.3.4:123456', undefined],
    ['1.2.3.4%eth0', undefined],
    ['1.2.3.4, 5.6.7.8', undefined],
    ['[1.2.3.4', undefined],
    ['[::1', undefined],
    ['[::1]x', undefined],
    ['[::1]:', undefined],
    ['[]', undefined],
    ['::1]', undefined],
    [':80', undefined],
    [':', undefined],
    ['64:ff9b::8.8.4.4', '8.8.4.4'],
    ['::ffff:0:8.8.4.4', '8.8.4.4'],
    ['/var/run/app.sock', undefined],
  ])('returns for %o: %o', (raw, expected) => {
    expect(key(raw)).toBe(expected)
    expect(key(raw)).toBe(expected)
  })

  test('returns undefined for a value that is not a string', () => {
    for (const raw of [null, 7, {}, ['203.0.113.7']]) expect(key(raw as never)).toBeUndefined()
    expect(clientAddress(null as never)).toBeUndefined()
  })
})

describe('an IPv6 address that carries a private or special IPv4 address', () => {
  const special = ['0.0.0.0', '10.1.2.3', '100.64.0.1', '127.0.0.1', '169.254.1.1', '172.16.0.1', '172.31.255.255']
  special.push('192.168.1.1', '192.0.0.1', '192.0.2.1', '198.18.0.1', '203.0.113.1', '224.0.0.1', '255.255.255.255')

  test.each(special)('is IPv6 unless it is mapped: %s', (address) => {
    expect(key(`64:ff9b::${address}`)).toBe('64:ff9b::/56')
    expect(key(`::ffff:0:${address}`)).toBe('::/56')
    expect(clientAddress(`64:ff9b::${address}`)).toMatch(/^64:ff9b::/)
    expect(key(`::ffff:${address}`)).toBe(address)
  })

  test.each([
    ['64:ff9b:1::8.8.4.4', '64:ff9b:1::/56'],
    ['2002:808:404::1', '2002:808:404::/56'],
    ['::8.8.4.4', '::/56'],
  ])('%s of other networks is never the IPv4 address', (raw, expected) => expect(key(raw)).toBe(expected))
})

test.each([31, 129, 0, -1, 56.5, NaN, Infinity, '56', null])('ipv6Subnet: %o is refused', (bits) => {
  expect(() => addressKeyer(bits as number)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
  expect(() => addressKeyer(bits as number)).toThrow(/ipv6Subnet/)
})

const bytes = (count: number) => fc.uint8Array({ minLength: count, maxLength: count })
const subnet = fc.integer({ min: 32, max: 128 })
const MAPPED = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255]
const IPV4_PREFIXES = [MAPPED, [0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0], [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0]]
const carriesNone = (each: Uint8Array): boolean =>
  !IPV4_PREFIXES.some((prefix) => prefix.every((byte, i) => byte === each[i]))
const notMapped = bytes(16).filter(carriesNone)
// Runs of zeros are what notations differ in.
const sparse = fc
  .tuple(notMapped, fc.uint8Array({ minLength: 8, maxLength: 8, max: 1 }))
  .map(([all, mask]) => all.map((byte, i) => byte * mask[i >> 1]!))
const ipv6 = fc.oneof(notMapped, sparse).filter(carriesNone)
const byOthers = (each: Uint8Array) => Address6.fromByteArray(Array.from(each))

/** Every way to write an address, by the second library and by hand. */
function notations(each: Uint8Array): string[] {
  const groups = Array.from({ length: 8 }, (_, i) => (each[2 * i]! << 8) | each[2 * i + 1]!)
  const plain = groups.map((group) => group.toString(16))
  const padded = plain.map((group) => group.padStart(4, '0'))
  const dotted = each.slice(12).join('.')
  const written = [byOthers(each).correctForm(), byOthers(each).canonicalForm(), plain.join(':'), padded.join(':')]
  written.push(`${plain.slice(0, 6).join(':')}:${dotted}`, byOthers(each).to4in6())
  for (let from = 0; from < 8; from++) {
    for (let to = from + 1; to <= 8 && groups[to - 1] === 0; to++)
      written.push(`${plain.slice(0, from).join(':')}::${plain.slice(to).join(':')}`)
  }
  const head = plain.slice(0, 6)
  for (let from = 0; from < 6; from++) {
    for (let to = from + 1; to <= 6 && groups[to - 1] === 0; to++) {
      const rest = [...head.slice(to), dotted].join(':')
      written.push(`${head.slice(0, from).join(':')}::${rest}`)
    }
  }
  return written
}

const decorations: readonly ((text: string) => string)[] = [
  (text) => text,
  (text) => text.toUpperCase(),
  (text) => ` ${text}\n`,
  (text) => `[${text}]`,
  (text) => `[${text}]:65535`,
  (text) => `${text}%eth0`,
  (text) => `[${text}%25en0]:1`,
]

describe('against a second library', () => {
  test('IPv4 addresses are their own keys', () => {
    fc.assert(
      fc.property(bytes(4), fc.nat(65_535), subnet, (each, port, bits) => {
        const address = Address4.fromByteArray(Array.from(each)).correctForm()
        for (const text of [address, ` ${address} `, `${address}:${port}`])
          expect(addressKeyer(bits)(text)).toBe(address)
      }),
    )
  })

  test('IPv4-mapped, IPv4-translated and NAT64 addresses are IPv4 in every notation and with every prefix', () => {
    const prefixes = fc.constantFrom(...IPV4_PREFIXES)
    fc.assert(
      fc.property(bytes(4), subnet, fc.constantFrom(...decorations), prefixes, (some, bits, decorate, prefix) => {
        // Public ones: 11.0.0.0 to 99.255.255.255 has no special address.
        const each = prefix === MAPPED ? some : some.map((byte, i) => (i === 0 ? 11 + (byte % 89) : byte))
        const mapped = Uint8Array.from([...prefix, ...each])
        const expected = Address4.fromByteArray(Array.from(each)).correctForm()
        const keyOf = addressKeyer(bits)
        const keys = notations(mapped).map((text) => keyOf(decorate(text)))
        expect(new Set(keys)).toEqual(new Set([expected]))
      }),
    )
  })

  test('all notations of an IPv6 address have one key, which is its network', () => {
    fc.assert(
      fc.property(ipv6, subnet, fc.constantFrom(...decorations), (each, bits, decorate) => {
        const network = new Address6(`${byOthers(each).correctForm()}/${bits}`).startAddress().correctForm()
        const expected = `${network}/${bits}`
        const keyOf = addressKeyer(bits)
        const keys = notations(each).map((text) => keyOf(decorate(text)))
        expect(new Set(keys)).toEqual(new Set([expected]))
      }),
    )
  })

  test('two addresses have the same key exactly if they have the same network', () => {
    fc.assert(
      fc.property(ipv6, fc.nat(127), subnet, (each, flipped, bits) => {
        const other = each.slice()
        other[flipped >> 3]! ^= 0x80 >> (flipped & 7)
        const keyOf = addressKeyer(bits)
        const same = keyOf(byOthers(each).correctForm()) === keyOf(byOthers(other).correctForm())
        expect(same).toBe(flipped >= bits)
      }),
    )
  })
})

describe('any text', () => {
  const hostile = fc.oneof(
    fc.string({ maxLength: 60 }),
    fc.string({ unit: fc.constantFrom(...'0123456789abcdefF:.%[]/ x'.split('')), maxLength: 60 }),
    fc
      .tuple(
        fc.constantFrom(':', '::', '[', '%', '1.', '0', 'f:', ' ', '\0', '٣', '💥'),
        fc.integer({ min: 1000, max: 20_000 }),
      )
      .map(([part, count]) => part.repeat(count)),
  )

  test('does not throw, and its key is the key of itself', () => {
    fc.assert(
      fc.property(hostile, (raw) => {
        const found = key(raw)
        if (found === undefined) return
        expect(key(found.replace(/\/56$/, ''))).toBe(found)
        expect(new Address6(found.includes(':') ? found : `::ffff:${found}`).parsedAddress).toHaveLength(8)
      }),
      { numRuns: 1000 },
    )
  })

  test('is handled quickly if it is long', () => {
    for (const part of ['[', '::', '1.2.3.4:', '%', ' ', '2001:db8::']) {
      expect(key(`${part.repeat(100_000)}x`)).toBeUndefined()
      expect(key(`::1%${part.repeat(100_000)}x`)).toBeUndefined()
    }
  })
})

describe('what is an address', () => {
  const parts = [
    '::',
    ':',
    '0',
    '1',
    'ffff',
    'FFff:',
    '00001',
    'g',
    '.',
    '1.2.3.4',
    '255.255.255.255',
    '256.1.1.1',
    '01.2.3.4',
  ]

  test('is what node:net takes for one, without a port', () => {
    const text = fc.array(fc.constantFrom(...parts), { maxLength: 12 }).map((each) => each.join(''))
    const address = fc.oneof(text, fc.ipV4(), fc.ipV6())
    const isOneHere = (given: string): boolean => clientAddress(given) !== undefined
    fc.assert(
      fc.property(
        address.filter((each) => !/^[\d.]+:\d+$/.test(each)),
        (each) => isOneHere(each) === (isIP(each) !== 0),
      ),
      { numRuns: 2000 },
    )
  })
})
