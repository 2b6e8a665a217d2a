import { parseArgs } from 'node:util'
import { PREFIX } from '../../stores/redis/keys.ts'
import { parseDuration } from '../../util/duration.ts'
import { SluiceError } from '../../util/errors.ts'
import { withServers } from '../connect.ts'
import type { Outcome } from '../outcome.ts'
import { Ranking } from './ranking.ts'
import { KeyScan } from './scan.ts'
import { openScreen } from './screen.ts'
import { cut, tableOf } from './table.ts'

const USAGE = `Usage: sluice top <redis-url>   shows the keys that have used most of their limits; q quits

  --limiter <name>   only keys of this limiter
  --interval <time>  the time between refreshes (default: 2s)
  --keys <number>    how many keys to show (default: 100)
  --once             reads all keys once, prints the table and ends; the default without a terminal
  --json             prints JSON; implies --once
  --prefix <text>    the prefix of keys in Redis (default: ${PREFIX})
  --client <name>    ioredis, iovalkey, redis or @valkey/valkey-glide (default: the first that is installed)

A refresh reads the keys on the screen again, and the next 5,000 keys in Redis.
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
  help: { type: 'boolean', short: 'h', default: false },
} as const

/** Runs `sluice top …`. */
export async function topCommand(args: readonly string[]): Promise<Outcome> {
  const { values, positionals } = parseArgs({ args: [...args], allowPositionals: true, options: OPTIONS })
  if (values.help) return { text: USAGE }
  if (positionals.length !== 1) throw new SluiceError('INVALID_OPTION', `expected a Redis URL\n\n${USAGE}`)
  const ranking = new Ranking(values.prefix, values.limiter, keysOf(values.keys))
  const interval = intervalOf(values.interval)
  const isLive = process.stdout.isTTY && process.stdin.isTTY && !values.once && !values.json
  return withServers(positionals[0]!, values.client, async (runners) => {
    const scan = new KeyScan(runners, values.prefix)
    if (isLive) return live(scan, ranking, interval)
    await scan.next(Infinity, ranking.add)
    const rows = ranking.rows()
    return { text: values.json ? `${JSON.stringify(rows)}\n` : `${tableOf(rows, Infinity).join('\n')}\n` }
  })
}

/** Refreshes the screen until the user quits. */
async function live(scan: KeyScan, ranking: Ranking, interval: number): Promise<Outcome> {
  const screen = openScreen(process.stdin, process.stdout)
  try {
    for (let isQuit = false; !isQuit; isQuit = await screen.pause(interval)) {
      await ranking.refresh()
      await scan.next(KEYS_PER_REFRESH, ranking.add)
      screen.show(page(ranking, await scan.size()))
    }
  } finally {
    screen.close()
  }
  return { text: '' }
}

function page(ranking: Ranking, size: number): string[] {
  // A terminal that does not know its size says 0.
  const [columns, height] = [process.stdout.columns || 80, process.stdout.rows || 24]
  const title = `sluice top – ${new Date().toLocaleTimeString('en-GB')} – ${size.toLocaleString('en')} keys in Redis – q quits`
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
