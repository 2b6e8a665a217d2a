import { causeOf, messageOf, SluiceError, type SluiceErrorCode } from '../../util/errors.ts'
import type { Charge } from '../store.ts'
import { kindName } from './keys.ts'

/** The commands that the program calls. */
export const RIGHTS = '+evalsha +eval +time +hget +hmget +hset +hdel +hkeys +del +pttl +pexpire'

/** Messages with which the server refuses a user, or every script. A retry does not help. */
const REFUSED =
  /\bNOPERM\b|\bPermissionDenied\b|can't run this command|\bACL failure\b|\bNOAUTH\b|\bWRONGPASS\b|\bunknown command\b|\bcommand called from\b/

/** Messages of a client, or of its server, that has subscribed to channels. Under RESP2 it can send nothing else. */
const SUBSCRIBED = /\bsubscriber mode\b|\ballowed in this context\b/

/** Messages with which a server of a cluster refuses a client for one server. A retry does not help. */
const MOVED = /^(?:Command failed: )?MOVED \d|\bMoved: \d/

/** Messages that say that the client or its user is wrong. */
const SETUP = [REFUSED, SUBSCRIBED, MOVED]

/** Messages of a cluster about keys of different slots. */
const ACROSS_SLOTS = /\bCROSSSLOT\b|\bCrossSlot\b/

/** Messages of the program about a key that it cannot read. An algorithm reads the entries of its log, so such a message can be that of an algorithm. */
const DAMAGED = /^DAMAGED_ROW$|to 'unpacked' \(data string too short\)/

/** What to do about a key that cannot be read. */
export const UNREADABLE =
  'What Redis has of this key is damaged, or another version of the package wrote it. `reset` deletes it, and the key starts from zero'

/** Messages with which Redis refuses a call, as servers and valkey-glide write them, and the remedy for each. */
const ADVICE: readonly (readonly [RegExp, string])[] = [
  [DAMAGED, UNREADABLE],
  [/\bOOM\b/, 'Redis is full: it has reached maxmemory and can evict nothing. Raise maxmemory, or free memory'],
  [
    /\bWRONGTYPE\b/,
    'Something else than a rate limit is kept under this key. Remove it, or give this store a `prefix` of its own',
  ],
  [
    /\bNOPERM\b|\bPermissionDenied\b|can't run this command|\bACL\b/,
    `This user of Redis may not do what the script does. Run: ACL SETUSER <user> ~<prefix of the store>* ${RIGHTS}. On Redis 7 and Valkey also: ACL SETUSER <user> +fcall +function|load. See sluice/docs/guides/redis.md#a-user-with-few-rights`,
  ],
  [/\bNOAUTH\b|\bWRONGPASS\b/, 'The name or the password of the user is wrong. Correct the options of the client'],
  [/\bcommand called from\b/, `The server has renamed or disabled a command that the script calls. Allow: ${RIGHTS}`],
  [
    /\bunknown command\b/,
    'This server, or a proxy before it, runs no scripts. Allow EVALSHA and EVAL, or use another server',
  ],
  [/\bREADONLY\b|\bReadOnly\b/, 'This is a replica. Connect to the primary'],
  [SUBSCRIBED, 'This client has subscribed to channels, and can do nothing else. Give redisStore a client of its own'],
  [
    MOVED,
    'This server belongs to a cluster, and another server of it has this key. Give redisStore the client of a cluster: new Cluster() of ioredis and iovalkey, createCluster() of node-redis, or GlideClusterClient',
  ],
  [
    ACROSS_SLOTS,
    'These keys are on different slots of a cluster. Give redisStore the cluster client, or say `cluster: true`',
  ],
  [
    /^SLUICE_MANY_LIMITS$/,
    'A key has 256 limits with different names. Names made from user data look like this: put such data into the key, not into a name',
  ],
  [/\bBUSY\b/, 'Redis is running a script that takes too long'],
]

/** Messages of the clients themselves. Some are only the name of an error. */
const NO_ANSWER =
  /^\w*Error$|\bE(CONN|HOST|NET|PIPE|AI_|TIME|NOTFOUND)|connect|socket|stream|closed|offline|timed out|max retries|startup nodes|fetch failed|no answer|parse response body/i

/**
 * Messages that say that the request is invalid, such as an error in the Lua text of an algorithm. Another server or a retry does not help. If the server
 * refuses a command within a script, the message has an `@` before the place.
 */
const REJECTED = /^SLUICE_MANY_LIMITS$|\bWRONGTYPE\b|(^|[^@])\buser_(script|function):\s?\d+:/

/**
 * Returns the error of a decision that could not be made: `DAMAGED_ROW` if the key cannot be read, `STORE_REJECTED` if the request is invalid, `STORE_SETUP`
 * if the server refuses the user or the client, else `STORE_FAILED`. Its message says what to do.
 * @param lost why the client has no connection, if this is known. The errors of commands do not say it: they are such as `Connection is closed.`
 */
export function failure(cause: unknown, lost?: string): SluiceError {
  return new SluiceError(codeFor(cause), `Redis could not decide: ${explained(cause, lost)}`, { cause })
}

function codeFor(cause: unknown): SluiceErrorCode {
  const message = reasonIn(cause)
  if (DAMAGED.test(message)) return 'DAMAGED_ROW'
  if (isRejection(cause)) return 'STORE_REJECTED'
  return SETUP.some((sign) => sign.test(message)) ? 'STORE_SETUP' : 'STORE_FAILED'
}

function explained(cause: unknown, lost: string | undefined): string {
  const message = reasonIn(cause)
  const advice = ADVICE.find(([sign]) => sign.test(message))?.[1]
  if (advice !== undefined) return `${advice} (${message})`
  if (!isFromClient(cause)) return message
  return `The client got no answer to a script. Check the URL it was given, and that it is connected (${lost ?? message})`
}

/** Returns why a call failed, as a part of a sentence. Errors of a cluster of ioredis have a message that does not say why. */
export function reasonIn(error: unknown): string {
  const { lastNodeError } = Object(error) as { lastNodeError?: unknown }
  return causeOf(lastNodeError instanceof Error ? lastNodeError : error)
}

/**
 * Returns the error of a transaction that failed alone. For an error of an algorithm, the script writes `#`, the place of the charge and the message of
 * the algorithm. Any other text is a message of Redis.
 */
export function transactionFailure(words: string, charges: readonly Charge[]): SluiceError {
  const [, place, fault] = /^#(\d+) ([^]*)$/.exec(words) ?? []
  if (fault === undefined || DAMAGED.test(fault)) return failure(new Error(fault ?? words))
  const policy = charges[Number(place) - 1]?.policy
  const where = policy && `limit "${policy.limit.name}", algorithm ${kindName(policy.compiled.algorithm)}: `
  return new SluiceError('STORE_REJECTED', `Redis could not decide: ${where ?? ''}${fault}`, {
    cause: new Error(fault),
  })
}

function isRejection(error: unknown): boolean {
  return (REJECTED.test(messageOf(error)) || isAcrossSlots(error)) && !isRefusedForNow(error) && !isTransient(error)
}

/** Returns true if the server has refused a call because its keys have different slots. */
export function isAcrossSlots(error: unknown): boolean {
  return ACROSS_SLOTS.test(messageOf(error))
}

/** Returns true if the server does not know a function: after a restart, after a flush, or on a new primary. */
export function isFunctionMissing(error: unknown): boolean {
  return /Function not found/i.test(messageOf(error))
}

/** Returns true if the server has no functions, or this user may not use them. */
export function isWithoutFunctions(error: unknown): boolean {
  return /unknown (sub)?command|(NOPERM|PermissionDenied|no permissions)[^]*\b(fcall|function)/i.test(messageOf(error))
}

/** Returns true if the server refuses a function before it runs, because it might write. */
export function isRefusedForNow(error: unknown): boolean {
  return /\b(OOM|READONLY|ReadOnly|NOREPLICAS|NotEnoughReplicas|MISCONF)\b/.test(messageOf(error))
}

/** Returns true if the load of a library was refused, and another load does not help. */
export function isRefusedForGood(error: unknown): boolean {
  return !/already exists/i.test(messageOf(error)) && !isRefusedForNow(error) && !isTransient(error)
}

/** Returns true if a load had no answer, or can succeed later. It is repeated when the function is missing again. */
function isTransient(error: unknown): boolean {
  return isFromClient(error) || /\b(BUSY|LOADING|TRYAGAIN|CLUSTERDOWN|MASTERDOWN)\b/i.test(messageOf(error))
}

/** Returns true if the server does not know a script. valkey-glide has its own message for this. */
export function isScriptMissing(error: unknown): boolean {
  return /NOSCRIPT|NoScriptError/.test(messageOf(error))
}

/** Returns true for an error of the client: the server has not answered. */
export function isFromClient(error: unknown): boolean {
  return NO_ANSWER.test(messageOf(error))
}
