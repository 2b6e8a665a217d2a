import { SluiceError } from '../../util/errors.ts'

/** What Redis says when it will not, and what to do about it. */
const ADVICE: readonly (readonly [RegExp, string])[] = [
  [
    /\bOOM\b/,
    'Redis is full: it has reached maxmemory and may evict nothing (noeviction). Raise maxmemory, or free memory',
  ],
  [
    /\bWRONGTYPE\b/,
    'Something else than a rate limit is kept under this key. Remove it, or give this store a `prefix` of its own',
  ],
  [
    /\bNOPERM\b|can't run this command|\bACL\b/,
    'This user of Redis may not do what the script does. docs/redis.md lists the commands it needs',
  ],
  [/\bREADONLY\b/, 'This is a replica. Connect to the primary'],
  [
    /\bCROSSSLOT\b/,
    'These keys are on different slots of a cluster. Give redisStore the cluster client, or say `cluster: true`',
  ],
  [/\bBUSY\b/, 'Redis is running a script that takes too long'],
  // What clients say of themselves, or no more than an error's name.
  [
    /^\w*Error$|\bE(CONN|HOST|NET|PIPE|AI_|TIME|NOTFOUND)|connect|socket|stream|closed|offline|timed out|max retries|startup nodes/i,
    'The client got no answer to a script. Check the URL it was given, and that it is connected',
  ],
]

/** Why a decision could not be made, in a sentence that says what to do. */
export function failure(cause: unknown): SluiceError {
  const message = (cause as Error | undefined)?.message || String(cause)
  const advice = ADVICE.find(([sign]) => sign.test(message))?.[1]
  const text = advice === undefined ? message : `${advice} (${message})`
  return new SluiceError('STORE_FAILED', `Redis could not decide: ${text}`, { cause })
}
