import { emitKeypressEvents } from 'node:readline'
import { parseDuration, roughDuration } from '../../util/duration.ts'
import { escaped, grouped, type Io, type Outcome, resetText } from '../print.ts'
import { parseArgs } from 'node:util'
import { PREFIX } from '../../stores/redis/keys.ts'
import { SluiceError } from '../../util/errors.ts'
import { type KeySource, withAllKeys, type StoredKey } from '../sources.ts'
import { type HeldByLimit, heldOf } from '../../stores/held.ts'

/** The state of one key under one limit. Durations are in milliseconds. */
export interface Row {
  readonly limiter: string
  readonly key: string
  readonly limit: string
  /** Units in use; `undefined` if the algorithm is not registered here. */
  readonly used: number | undefined
  /** Units that can be used back to back. */
  readonly capacity: number | undefined
  readonly resetAfter: number | undefined
  /** True for a limit of slots: `resetAfter` is when the newest slot expires. */
  readonly slots: boolean
  readonly lockedFor: number
}

/** Keys that are read at once. */
const AT_ONCE = 50

/** The most used keys that were found. It keeps a bounded number of them, and reads these again on each refresh. */
export class Ranking {
  readonly #limiter: string | undefined
  readonly #most: number
  readonly #kept = new Map<string, { readonly key: StoredKey; readonly rows: readonly Row[] }>()
  #read = 0

  constructor(limiter: string | undefined, most: number) {
    this.#limiter = limiter
    this.#most = most
  }

  /** How many keys were read, those that were read again included. */
  get read(): number {
    return this.#read
  }

  /** Reads keys, and keeps the most used. */
  readonly add = async (keys: readonly StoredKey[]): Promise<void> => {
    for (let at = 0; at < keys.length; at += AT_ONCE) {
      await Promise.all(keys.slice(at, at + AT_ONCE).map((key) => this.#addOne(key)))
    }
    this.#forget()
  }

  /** Reads the kept keys again. */
  refresh(): Promise<void> {
    return this.add([...this.#kept.values()].map(({ key }) => key))
  }

  /** The rows, the largest share in use first. Locked keys count as fully used. */
  rows(): Row[] {
    return [...this.#kept.values()].flatMap(({ rows }) => rows).toSorted(compare)
  }

  async #addOne(key: StoredKey): Promise<void> {
    if (this.#limiter !== undefined && key.limiter !== this.#limiter) return
    const { limits } = heldOf(key.name, await key.read())
    this.#read++
    const rows = limits.map((each) => rowOf(key, each)).filter(isInUse)
    if (rows.length === 0) this.#kept.delete(key.name)
    else this.#kept.set(key.name, { key, rows })
  }

  #forget(): void {
    if (this.#kept.size <= this.#most) return
    const ranked = [...this.#kept].toSorted(([, a], [, b]) => compare(mostUsed(a.rows), mostUsed(b.rows)))
    for (const [name] of ranked.slice(this.#most)) this.#kept.delete(name)
  }
}

function rowOf({ limiter, key }: StoredKey, { limit, verdict, lockedFor }: HeldByLimit): Row {
  return {
    limiter,
    key,
    limit,
    used: verdict?.used,
    capacity: verdict?.capacity,
    resetAfter: verdict?.resetAfter,
    slots: verdict?.slots === true,
    lockedFor,
  }
}

function isInUse({ used, lockedFor }: Row): boolean {
  return used === undefined || used > 0 || lockedFor > 0
}

function mostUsed(rows: readonly Row[]): Row {
  return rows.toSorted(compare)[0]!
}

function compare(a: Row, b: Row): number {
  return shareOf(b) - shareOf(a) || (b.used ?? 0) - (a.used ?? 0) || (a.key < b.key ? -1 : 1)
}

/** From 0 to 1; 0 for an unknown algorithm. */
export function shareOf({ used, capacity, lockedFor }: Row): number {
  if (lockedFor > 0) return 1
  if (used === undefined || capacity === undefined) return 0
  return capacity === 0 ? 1 : Math.min(1, used / capacity)
}

/** The second screen of a terminal. It is left, and the cursor shown, in every case. */
interface Screen {
  /** Replaces what the terminal shows. */
  show(lines: readonly string[]): void
  /** Resolves after so many milliseconds, or when the user quits or changes the size. True if the user quits. */
  pause(ms: number): Promise<boolean>
  close(): void
}

const ENTER = '\u001b[?1049h\u001b[?25l'
const LEAVE = '\u001b[?25h\u001b[?1049l'
const HOME = '\u001b[H'
const CLEAR_LINE = '\u001b[K'
const CLEAR_BELOW = '\u001b[J'

/** Opens the screen. `q`, Escape, Ctrl-C, SIGINT, SIGTERM and SIGHUP quit. */
function openScreen(input: NodeJS.ReadStream, output: NodeJS.WriteStream): Screen {
  let isQuit = false
  let wake = (): void => {}
  const quit = (): void => {
    isQuit = true
    wake()
  }
  const redraw = (): void => wake()
  const pressed = (_text: string | undefined, key: { name?: string; ctrl?: boolean }): void => {
    if (key.name === 'q' || key.name === 'escape' || (key.ctrl === true && key.name === 'c')) quit()
  }
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
  emitKeypressEvents(input)
  input.setRawMode(true).on('keypress', pressed).resume()
  for (const signal of signals) process.on(signal, quit)
  output.on('resize', redraw).write(ENTER)

  return {
    show: (lines) =>
      void output.write(`${HOME}${lines.map((line) => `${line}${CLEAR_LINE}`).join('\n')}${CLEAR_BELOW}`),
    async pause(ms) {
      if (!isQuit) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, ms)
          wake = () => {
            clearTimeout(timer)
            resolve()
          }
        })
      }
      return isQuit
    },
    close() {
      input.off('keypress', pressed).setRawMode(false).pause()
      for (const signal of signals) process.off(signal, quit)
      output.off('resize', redraw).write(LEAVE)
    },
  }
}

const HEADINGS = ['used', '', 'of', 'key', 'limit', 'limiter', 'resets in', 'locked for']
const KEY = 3
/** The widest key in a terminal. */
const KEY_WIDTH = 40
const BAR = 10

/** Returns the rows as lines of at most `width` characters. Control characters are escaped. */
export function tableOf(rows: readonly Row[], width: number): string[] {
  const cells = [HEADINGS, ...rows.map((row) => cellsOf(row, width))]
  const widths = HEADINGS.map((_, column) =>
    cells.reduce((most, line) => Math.max(most, charactersOf(line[column]!).length), 0),
  )
  return cells.map((line) => cut(line.map((cell, column) => padded(cell, widths[column]!, column)).join('  '), width))
}

/** Cuts a line at the edge of the terminal. */
function cut(line: string, width: number): string {
  const characters = charactersOf(line.trimEnd())
  return characters.length <= width ? characters.join('') : `${characters.slice(0, width - 1).join('')}…`
}

function cellsOf(row: Row, width: number): string[] {
  const { used, capacity, limit, limiter, resetAfter, slots, lockedFor, key } = row
  const free = resetAfter === undefined ? '?' : resetText(Math.max(resetAfter, lockedFor), slots)
  const locked = lockedFor > 0 ? roughDuration(lockedFor) : '–'
  const texts = [numberText(used), bar(shareOf(row)), numberText(capacity), key, limit, limiter, free, locked]
  const cells = texts.map((text) => escaped(text).replaceAll('\n', '\\n'))
  if (width < Infinity) cells[KEY] = cut(cells[KEY]!, KEY_WIDTH)
  return cells
}

function numberText(value: number | undefined): string {
  return value === undefined ? '?' : value.toLocaleString('en')
}

function bar(share: number): string {
  const full = Math.ceil(share * BAR)
  return '█'.repeat(full) + '░'.repeat(BAR - full)
}

function padded(cell: string, width: number, column: number): string {
  const space = ' '.repeat(width - charactersOf(cell).length)
  return column === 0 ? space + cell : cell + space
}

/** Code points: a cut between two halves of a character would print neither. */
function charactersOf(text: string): string[] {
  return Array.from(text)
}

const USAGE = `Usage: sluice top <url>         shows the keys that have used most of their limits; q quits

  --limiter <name>   only keys of this limiter
  --interval <time>  the time between refreshes (default: 2s)
  --keys <number>    how many keys to show (default: 100)
  --once             reads all keys once, prints the table and ends; the default without a terminal
  --json             prints JSON; implies --once
  --prefix <text>    the prefix of keys in Redis (default: ${PREFIX})
  --table <name>     the table in PostgreSQL, MySQL or SQLite (default: sluice)
  --schema <name>    its schema
  --client <name>    ioredis, iovalkey, redis or @valkey/valkey-glide (default: the first that is installed)

A refresh reads the keys on the screen again, and the next 5,000 keys.
The URL is one of redis://, postgres://, mysql:// or sqlite:<file>.
`

/** Keys that one refresh looks at. */
const KEYS_PER_REFRESH = 5000
const MOST_KEYS = 10_000

const OPTIONS = {
  limiter: { type: 'string' },
  interval: { type: 'string', default: '2s' },
  keys: { type: 'string', default: '100' },
  once: { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
  prefix: { type: 'string', default: PREFIX },
  client: { type: 'string' },
  table: { type: 'string' },
  schema: { type: 'string' },
  help: { type: 'boolean', short: 'h', default: false },
} as const

/** Runs `sluice top …`. */
export async function topCommand(args: readonly string[], { stdout }: Io): Promise<Outcome> {
  const { values, positionals } = parseArgs({ args: [...args], allowPositionals: true, options: OPTIONS })
  if (values.help) return { text: USAGE }
  if (positionals.length !== 1) throw new SluiceError('INVALID_OPTION', `expected a URL\n\n${USAGE}`)
  const ranking = new Ranking(values.limiter, keysOf(values.keys))
  const interval = intervalOf(values.interval)
  const isLive = stdout.isTTY === true && process.stdin.isTTY && !values.once && !values.json
  return withAllKeys(positionals[0]!, values, async (source) => {
    if (isLive) return live(source, ranking, interval)
    await source.next(Infinity, ranking.add)
    const rows = ranking.rows()
    return { text: values.json ? `${JSON.stringify(rows)}\n` : `${tableOf(rows, Infinity).join('\n')}\n` }
  })
}

/** Refreshes the screen until the user quits. */
async function live(source: KeySource, ranking: Ranking, interval: number): Promise<Outcome> {
  const screen = openScreen(process.stdin, process.stdout)
  try {
    for (let isQuit = false; !isQuit; isQuit = await screen.pause(interval)) {
      await ranking.refresh()
      await source.next(KEYS_PER_REFRESH, ranking.add)
      screen.show(page(ranking, `${grouped(await source.size())} ${source.contents}`))
    }
  } finally {
    screen.close()
  }
  return { text: '' }
}

function page(ranking: Ranking, contents: string): string[] {
  // A terminal that does not know its size says 0.
  const [columns, height] = [process.stdout.columns || 80, process.stdout.rows || 24]
  const title = `sluice top – ${new Date().toLocaleTimeString('en-GB')} – ${contents} – q quits`
  const lines = tableOf(ranking.rows(), columns)
  return [cut(title, columns), '', ...lines.slice(0, Math.max(1, height - 3))]
}

function keysOf(text: string): number {
  const count = Number(text)
  if (Number.isInteger(count) && count > 0 && count <= MOST_KEYS) return count
  throw new SluiceError('INVALID_OPTION', `--keys: expected a whole number from 1 to ${MOST_KEYS}, got ${text}`)
}

function intervalOf(text: string): number {
  const ms = parseDuration(text)
  if (ms !== undefined && ms >= 100 && ms <= 3_600_000) return ms
  throw new SluiceError('INVALID_OPTION', `--interval: expected a time from 100ms to 1h, such as 2s, got ${text}`)
}
