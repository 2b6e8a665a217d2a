import { parseArgs } from 'node:util'
import { readFleet, TOPIC } from '../dashboard/fleet.ts'
import { LONGEST_LOCK } from '../engine/compiled-limit.ts'
import { perSecond } from '../engine/factories.ts'
import { isUnmatchedSeries } from '../limiter/rule-source.ts'
import { heldOf } from '../stores/held.ts'
import { PREFIX } from '../stores/redis/keys.ts'
import { Charge, createPolicy, perform } from '../stores/store.ts'
import { boundedKey } from '../util/bounded-key.ts'
import { parseDuration, roughDuration } from '../util/duration.ts'
import { shown, SluiceError } from '../util/errors.ts'
import { jsonText, type Outcome } from './print.ts'
import { SOURCE_ARGUMENTS, type SourceOptions, withAllKeys, withSource, withStoreAt, withTexts } from './sources.ts'

const USAGE = `Usage: sluice block <url> <limiter> <key> <duration>   denies all requests of a key for a time, such as 15m
       sluice unblock <url> <limiter> <key>            ends that

The URL is one of redis://, postgres://, mysql:// or sqlite:<file>. The limiter of rules is rules/<policy>.

  --limit <name>    block: the limit that denies, for a limiter that has counted nothing yet (default: all limits that are known)
  --prefix <text>   the prefix of keys in Redis (default: ${PREFIX})
  --table <name>    the table in PostgreSQL, MySQL or SQLite (default: sluice)
  --schema <name>   its schema
  --json            prints JSON
  --client <name>   ioredis, iovalkey, redis or @valkey/valkey-glide (default: the first that is installed)
`

const OPTIONS = {
  limit: { type: 'string', multiple: true },
  ...SOURCE_ARGUMENTS,
} as const

/** Runs `sluice block …`. */
export async function blockCommand(args: readonly string[]): Promise<Outcome> {
  const { values, positionals } = parseArgs({ args: [...args], allowPositionals: true, options: OPTIONS })
  if (values.help) return { text: USAGE }
  const [url, limiter, key, duration] = wordsOf(positionals, 4, 'a URL, a limiter, a key and a duration')
  const ms = parseDuration(duration!)
  if (ms === undefined || ms <= 0 || ms > LONGEST_LOCK)
    throw misuse(`expected a duration such as 15m, got ${shown(duration)}`)
  const limits = values.limit ?? (await limitsOf(url!, limiter!, key!, values))
  if (limits.length === 0) {
    const remedy = 'Check its name with sluice top, or give the name of one of its limits with --limit'
    throw new SluiceError(
      'NOT_APPLICABLE',
      `No limit of the limiter ${shown(limiter)} has counted anything here. ${remedy}`,
    )
  }
  await lock(url!, limiter!, key!, limits, ms, values)
  if (values.json) return { text: jsonText({ limiter, key, limits, blockedFor: ms }) }
  return { text: `${limiter}: ${key} is blocked for ${roughDuration(ms)}, by ${limits.join(', ')}\n` }
}

/** Runs `sluice unblock …`. */
export async function unblockCommand(args: readonly string[]): Promise<Outcome> {
  const { limit: _, ...options } = OPTIONS
  const { values, positionals } = parseArgs({ args: [...args], allowPositionals: true, options })
  if (values.help) return { text: USAGE }
  const [url, limiter, key] = wordsOf(positionals, 3, 'a URL, a limiter and a key')
  const held = await heldAt(url!, limiter!, key!, values)
  const limits = held.filter(({ lockedFor }) => lockedFor > 0).map(({ limit }) => limit)
  if (limits.length > 0) await lock(url!, limiter!, key!, limits, 0, values)
  if (values.json) return { text: jsonText({ limiter, key, limits, blockedFor: 0 }) }
  return { text: `${limiter}: ${key} is ${limits.length === 0 ? 'not blocked' : 'no longer blocked'}\n` }
}

/** Locks a key out under limits, whose states stay; 0 ends it. */
async function lock(
  url: string,
  limiter: string,
  key: string,
  limits: readonly string[],
  ms: number,
  options: SourceOptions,
): Promise<void> {
  await withStoreAt(url, options, async (store) => {
    const charges = limits.map((name) => {
      // A lock-out is kept by the name of the limit, whatever the limit is.
      const policy = createPolicy(limiter, perSecond(1, { name }), store, store)
      return new Charge(policy, boundedKey(key), 1)
    })
    await perform(store, { kind: 'lock', charges, ms, mode: 'set' })
  })
}

async function heldAt(
  url: string,
  limiter: string,
  key: string,
  options: SourceOptions,
): Promise<ReturnType<typeof heldOf>['limits']> {
  return withSource(url, options, async (source) => {
    const stored = source.keyOf(limiter, boundedKey(key))
    return heldOf(stored.name, await stored.read()).limits
  })
}

/** Keys that are looked at to find the limits of a limiter, and those of them that are read. */
const MOST_KEYS = 100_000
const MOST_READ = 100

/**
 * Returns the names of the limits of a limiter: those that have counted the key, those that have counted other keys, and those of processes with a
 * dashboard. One that is in force is enough, and one that was removed from the code denies nothing.
 */
async function limitsOf(url: string, limiter: string, key: string, options: SourceOptions): Promise<readonly string[]> {
  const names = new Set((await heldAt(url, limiter, key, options)).map(({ limit }) => limit))
  let left = MOST_READ
  await withAllKeys(url, options, (source) =>
    source.next(MOST_KEYS, async (keys) => {
      const wanted = keys.filter((each) => each.limiter === limiter).slice(0, left)
      left -= wanted.length
      for (const each of wanted) for (const { limit } of heldOf(each.name, await each.read()).limits) names.add(limit)
    }),
  )
  const { members } = await withTexts(url, options, TOPIC, readFleet)
  for (const { summary } of members)
    for (const each of summary.series) if (each.limiter === limiter && !isUnmatchedSeries(each)) names.add(each.limit)
  return [...names].toSorted()
}

function wordsOf(words: readonly string[], count: number, expected: string): readonly string[] {
  if (words.length === count) return words
  throw misuse(`expected ${expected}`)
}

function misuse(reason: string): SluiceError {
  return new SluiceError('INVALID_OPTION', `${reason}\n\n${USAGE}`)
}
