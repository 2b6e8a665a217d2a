import { boundedKey } from '../util/bounded-key.ts'
import { VERSION } from '../util/copies.ts'
import { messageOf, shown } from '../util/errors.ts'
import { hintOf, nearest } from '../util/validate.ts'
import {
  command,
  type Command,
  Misuse,
  SOURCE_OPTIONS,
  SOURCE_USAGE,
  unknownCommand,
  type ValuesOf,
} from './command.ts'
import { isDatabaseUrl } from './databases.ts'
import { answerOf, grouped, jsonText, type Outcome, printed } from './print.ts'
import { listKeys, type SourceOptions, withAllKeys, withPlace } from './sources.ts'

const USAGE = `Usage: sluice inspect <url> <limiter> <key>   prints how much of its limits a key has used
       sluice reset <url> <limiter> <key>     deletes the state of a key
       sluice block <url> <limiter> <key> <duration>   denies all requests of a key: sluice block --help
       sluice unblock <url> <limiter> <key>   ends that
       sluice top <url>                       shows the most used keys, live, and processes: sluice top --help
       sluice migrate <database> …            prints or creates the table of a store: sluice migrate --help
       sluice replay <log> …                  tries limits on a log: sluice replay --help
       sluice suggest <log> …                 shows how many requests clients send: sluice suggest --help
       sluice serve <rules> …                 decides for other programs over HTTP: sluice serve --help
       sluice rules <command> …               checks, compares and replaces rules: sluice rules --help

The URL is one of redis://, postgres://, mysql:// or sqlite:<file>.

  --raw              inspect: also prints what is stored
  --json             prints JSON
  ${SOURCE_USAGE}
  --help             prints this help
  --version          prints the version of the package

Exit code: 0 on success, 1 if the command fails, 2 if the call cannot be understood.
`

const FLAG = { type: 'boolean', default: false } as const
const OPTIONS = { raw: FLAG, version: FLAG, ...SOURCE_OPTIONS } as const

/** Returns the command for `sluice inspect …` and `sluice reset …`. Options may come before the name. `others` has the names of other commands. */
export function inspectOrReset(others: readonly string[]): Command {
  return command(USAGE, OPTIONS, (words, values) => inspected(words, values, others))
}

async function inspected(
  words: readonly string[],
  values: ValuesOf<typeof OPTIONS>,
  others: readonly string[],
): Promise<Outcome> {
  const [name = '', url = '', limiter = '', key = ''] = words
  if (values.version) return { text: `${VERSION}\n` }
  if (name !== 'inspect' && name !== 'reset') throw unknownCommand(name, ['inspect', 'reset', ...others])
  if (words.length !== 4) throw new Misuse('expected a URL, a limiter and a key')
  const { json, raw } = values
  const { isFound, answer, text } = await withPlace(url, values, async ({ source }) => {
    const stored = source.keyOf(limiter, boundedKey(key))
    if (name === 'reset') {
      const deleted = await stored.reset()
      const said = `${stored.name}: ${deleted ? 'deleted' : 'no state was stored'}\n`
      return { isFound: deleted, answer: { key: stored.name, deleted }, text: said }
    }
    const found = await stored.read()
    return { isFound: found.limits.length > 0, answer: answerOf(found, raw), text: printed(found, raw) }
  })
  const known = isFound ? undefined : await limitersIn(url, values).catch(messageOf)
  // A user who may not list keys still receives the state of the key.
  if (typeof known === 'string')
    return { text: json ? jsonText(answer) : text, note: `No list of limiters: ${known}\n` }
  const isUnknown = known !== undefined && !known.names.includes(limiter)
  if (!json) return { text: isUnknown ? `${text}${limiterLines(limiter, url, values.prefix, known)}` : text }
  return { text: jsonText(isUnknown ? { ...answer, limiters: known.names } : answer) }
}

/** The most keys that are read to find the names of limiters. A `SCAN` blocks Redis for about a millisecond for each thousand keys. */
const MOST_KEYS = 100_000
/** The most names that are collected, and the most names that are printed. */
const MOST_LIMITERS = 1000
const MOST_PRINTED = 20

interface KnownLimiters {
  readonly names: readonly string[]
  /** False if there may be more. */
  readonly isComplete: boolean
}

async function limitersIn(url: string, options: SourceOptions): Promise<KnownLimiters> {
  return withAllKeys(url, options, async (source) => {
    const names = new Set<string>()
    const isAtEnd = await listKeys(source, MOST_KEYS, async (keys) => {
      for (const { limiter } of keys) if (names.size < MOST_LIMITERS) names.add(limiter)
    })
    return { names: [...names].toSorted(), isComplete: isAtEnd && names.size < MOST_LIMITERS }
  })
}

function limiterLines(limiter: string, url: string, prefix: string, { names, isComplete }: KnownLimiters): string {
  const isRedis = !isDatabaseUrl(url)
  const among = isComplete ? '' : ` among the first ${grouped(MOST_KEYS)} keys${isRedis ? ' of Redis' : ''}`
  const [within, option] = isRedis ? [` with the prefix ${shown(prefix)}`, '--prefix'] : ['', '--table']
  if (names.length === 0) return `No limiter has a key${within}${among}. Check the URL and ${option}.\n`
  const hint = hintOf(nearest(limiter, names)) || '.'
  const more = names.length > MOST_PRINTED ? ` and ${names.length - MOST_PRINTED} more` : ''
  return (
    `No key of the limiter ${shown(limiter)} exists${among}${hint}\n` +
    `Limiters with keys: ${names.slice(0, MOST_PRINTED).join(', ')}${more}\n`
  )
}
