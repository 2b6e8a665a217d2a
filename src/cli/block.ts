import { readFleet, TOPIC } from '../dashboard/fleet.ts'
import { LONGEST_LOCK } from '../engine/compiled-limit.ts'
import { perSecond } from '../engine/factories.ts'
import { isUnmatchedSeries } from '../limiter/decision.ts'
import type { HeldByLimit } from '../stores/held.ts'
import { Charge, createPolicy, perform } from '../stores/store.ts'
import { boundedKey } from '../util/bounded-key.ts'
import { parseDuration, roughDuration } from '../util/duration.ts'
import { shown, SluiceError } from '../util/errors.ts'
import { command, type Command, Misuse, SOURCE_OPTIONS, SOURCE_USAGE } from './command.ts'
import { jsonText } from './print.ts'
import { listKeys, type Place, readable, type SourceOptions, withAllKeys, withPlace } from './sources.ts'

const USAGE = `Usage: sluice block <url> <limiter> <key> <duration>   denies all requests of a key for a time, such as 15m
       sluice unblock <url> <limiter> <key>            ends that

The URL is one of redis://, postgres://, mysql:// or sqlite:<file>. The limiter of rules is rules/<policy>.

  --limit <name>     block: the limit that denies, for a limiter that has counted nothing yet (default: all limits that are known)
  --json             prints JSON
  ${SOURCE_USAGE}
`

const BLOCK_OPTIONS = { limit: { type: 'string', multiple: true }, ...SOURCE_OPTIONS } as const

export const blockCommand: Command = command(USAGE, BLOCK_OPTIONS, async (words, values) => {
  const [url, limiter, key, duration] = wordsOf(words, 4, 'a URL, a limiter, a key and a duration')
  const ms = parseDuration(duration!)
  if (ms === undefined || ms <= 0 || ms > LONGEST_LOCK)
    throw new Misuse(`expected a duration such as 15m, got ${shown(duration)}`)
  const limits = values.limit ?? (await limitsOf(url!, limiter!, key!, values))
  if (limits.length === 0) {
    const remedy = 'Check its name with sluice top, or give the name of one of its limits with --limit'
    throw new SluiceError(
      'NOT_APPLICABLE',
      `No limit of the limiter ${shown(limiter)} has counted anything here. ${remedy}`,
    )
  }
  await withPlace(url!, values, (place) => lock(place, limiter!, key!, limits, ms))
  if (values.json) return { text: jsonText({ limiter, key, limits, blockedFor: ms }) }
  return { text: `${limiter}: ${key} is blocked for ${roughDuration(ms)}, by ${limits.join(', ')}\n` }
})

export const unblockCommand: Command = command(USAGE, SOURCE_OPTIONS, async (words, values) => {
  const [url, limiter, key] = wordsOf(words, 3, 'a URL, a limiter and a key')
  const limits = await withPlace(url!, values, async (place) => {
    const held = await heldIn(place, limiter!, key!)
    const locking = held.filter(({ lockedFor }) => lockedFor > 0).map(({ limit }) => limit)
    if (locking.length > 0) await lock(place, limiter!, key!, locking, 0)
    return locking
  })
  if (values.json) return { text: jsonText({ limiter, key, limits, blockedFor: 0 }) }
  return { text: `${limiter}: ${key} is ${limits.length === 0 ? 'not blocked' : 'no longer blocked'}\n` }
})

/** Locks a key out under some limits for `ms` milliseconds. 0 ends the lock-out. The states of the limits stay. */
async function lock(place: Place, limiter: string, key: string, limits: readonly string[], ms: number): Promise<void> {
  const store = place.store()
  const charges = limits.map((name) => {
    // A lock-out is stored under the name of the limit. The other options of the limit do not matter.
    const policy = createPolicy(limiter, perSecond(1, { name }), store, store)
    return new Charge(policy, boundedKey(key), 1)
  })
  await perform(store, { kind: 'lock', charges, ms, mode: 'set' })
}

async function heldIn({ source }: Place, limiter: string, key: string): Promise<readonly HeldByLimit[]> {
  const { limits } = await source.keyOf(limiter, boundedKey(key)).read()
  return limits
}

/** To find the limits of a limiter: the most keys that are listed, and the most keys that are read. */
const MOST_KEYS = 100_000
const MOST_READ = 100

/**
 * Returns the names of the limits of a limiter: limits that have counted this key, limits that have counted other keys, and limits of processes
 * with a dashboard. It is enough if one of them is still in use. A limit that was removed from the code denies nothing.
 */
async function limitsOf(url: string, limiter: string, key: string, options: SourceOptions): Promise<readonly string[]> {
  const names = new Set<string>()
  await withPlace(url, options, async (place) => {
    for (const { limit } of await heldIn(place, limiter, key)) names.add(limit)
    const { members } = await readFleet(place.texts(TOPIC))
    for (const each of members.flatMap(({ summary }) => summary.series))
      if (each.limiter === limiter && !isUnmatchedSeries(each)) names.add(each.limit)
  })
  let left = MOST_READ
  await withAllKeys(url, options, (source) =>
    listKeys(source, MOST_KEYS, async (keys) => {
      const wanted = keys.filter((each) => each.limiter === limiter).slice(0, left)
      left -= wanted.length
      for (const each of wanted) {
        const held = await readable(each)
        for (const { limit } of held?.limits ?? []) names.add(limit)
      }
    }),
  )
  return [...names].toSorted()
}

function wordsOf(words: readonly string[], count: number, expected: string): readonly string[] {
  if (words.length === count) return words
  throw new Misuse(`expected ${expected}`)
}
