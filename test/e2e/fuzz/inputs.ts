// Invalid inputs from a seed. The same seed gives the same inputs.

/** Returns random numbers below 1. The same seed gives the same numbers (mulberry32). */
export function randomOf(seed: number): () => number {
  let state = seed | 0
  return function random() {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** Creates random inputs. */
export interface Dice {
  /** Returns a whole number from 0, below `end`. */
  below(end: number): number
  /** Returns one of the values. */
  of<Item>(items: readonly Item[]): Item
  /** Returns true with the probability 1 / `count`. */
  oneIn(times: number): boolean
  /** Returns any text: plain, invalid or malicious, in any script, sometimes long. */
  text(): string
  /** Returns 1 to 40 characters of printable ASCII. */
  printable(): string
  ipv4(): string
  /** Returns the groups of an IPv6 address. */
  groups(): readonly number[]
}

const HOSTILE = [
  '\r\n',
  '\r\nSet-Cookie: a=b',
  '\n\nHTTP/1.1 200 OK',
  '\0',
  '"',
  '\\',
  '";q=1, "x',
  ';pk=:AA==:',
  'é',
  '💥',
  '\u2028',
  '\uD800',
  '\x7f',
  '\t',
  '%0d%0a',
  '__proto__',
  'constructor',
  'toString',
  '::ffff:',
  '[::1]:80',
  'NaN',
  '1e400',
  '-1',
  ' ',
  ',',
  ':',
  '.',
  '%eth0',
  'undefined',
]

export function diceOf(seed: number): Dice {
  const random = randomOf(seed)
  const below = (end: number): number => Math.floor(random() * end)
  const of = <Item>(items: readonly Item[]): Item => items[below(items.length)]!
  const oneIn = (times: number): boolean => below(times) === 0

  function text(): string {
    let made = ''
    const pieces = oneIn(1000) ? 2000 : below(5)
    for (let i = 0; i < pieces; i++)
      made += oneIn(2) ? of(HOSTILE) : String.fromCharCode(below(oneIn(2) ? 0x80 : 0x1_0000))
    return made
  }

  function printable(): string {
    let made = ''
    for (let i = below(40); i >= 0; i--)
      made += oneIn(8) ? of(['"', '\\', ';', ',', ' ']) : String.fromCharCode(0x20 + below(95))
    return made
  }

  return {
    below,
    of,
    oneIn,
    text,
    printable,
    ipv4: () => `${below(256)}.${below(256)}.${below(256)}.${below(256)}`,
    groups: () => Array.from({ length: 8 }, () => (oneIn(3) ? 0 : below(0x1_0000))),
  }
}

/** Returns a notation of an IPv4 address. */
export function spellingsOf(ipv4: string, { of, below }: Dice): string {
  const [a, b, c, d] = ipv4.split('.').map(Number) as [number, number, number, number]
  const high = ((a << 8) | b).toString(16)
  const low = ((c << 8) | d).toString(16)
  return of([
    ipv4,
    `${ipv4}:${below(65_536)}`,
    ` ${ipv4}\t`,
    `::ffff:${ipv4}`,
    `::FFFF:${ipv4}`,
    `::ffff:${high}:${low}`,
    `[::ffff:${ipv4}]:${below(65_536)}`,
    `[::FFFF:${high.toUpperCase()}:${low}]`,
    `0:0:0:0:0:ffff:${high}:${low}`,
    `0000:0000:0000:0000:0000:ffff:${ipv4}`,
    `::ffff:${ipv4}%eth${below(9)}`,
  ])
}

/** Returns a notation of an IPv6 address with random bits after the first 56. */
export function spellingsIn(groups: readonly number[], { of, below, oneIn }: Dice): string {
  const own = groups.map((group, i) => (i < 3 ? group : i === 3 ? (group & 0xff00) | below(256) : below(0x1_0000)))
  const written = own.map((group) => {
    const hex = group.toString(16)
    return oneIn(3) ? hex.padStart(4, '0') : oneIn(3) ? hex.toUpperCase() : hex
  })
  const text = written.join(':')
  return of([text, `[${text}]`, `[${text}]:${below(65_536)}`, `${text}%${of(['eth0', '1', 'é'])}`, `\t${text} `])
}

/** Matches the value of a header field (RFC 9110): visible ASCII with spaces, without control characters. */
export const FIELD: RegExp = /^[\x20-\x7e]*$/
