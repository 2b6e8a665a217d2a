import type { RedisClient } from '../../stores/redis/clients.ts'
import type { Duration } from '../../engine/limit.ts'
import { background } from '../../util/clock.ts'
import { milliseconds } from '../../util/validate.ts'
import { type Looks, repeatedLooks } from '../looks.ts'
import type { Loss, Rules } from '../rules.ts'
import { type RulesFeed, type SourceOptions, sourceOptions, startRules } from '../start.ts'
import { parseText, tooLarge } from '../text.ts'
import { PLACE, RedisDocument, type RedisPlace } from './stored.ts'

/** A separate connection for subscriptions: a connection that has subscribed can do nothing else. */
interface Subscriber {
  on(event: string, listener: (...args: unknown[]) => void): unknown
  subscribe(channel: string, listener?: () => void): Promise<unknown>
  /** ioredis, iovalkey. */
  disconnect?(): unknown
  /** node-redis. */
  connect?(): Promise<unknown>
  destroy?(): void
}

interface CanDuplicate {
  duplicate(...options: readonly unknown[]): Subscriber
  readonly isCluster?: boolean
}

function ignore(): void {}

/**
 * Calls `heard` for each message of a channel, and after each connection, because messages may have been missed before. If the server refuses the
 * subscription, `heard` is not called. Returns a function that ends the subscription.
 */
function subscribe(client: RedisClient, channel: string, heard: () => void): () => void {
  const begin = 'evalsha' in client ? subscribeIoredis : subscribeNodeRedis
  return begin(client as unknown as CanDuplicate, channel, heard)
}

/** Options that wait for the server, independent of the options of the client. */
const PATIENT = { lazyConnect: false, enableOfflineQueue: true, maxRetriesPerRequest: null, autoResubscribe: true }

function subscribeIoredis(client: CanDuplicate, channel: string, heard: () => void): () => void {
  const own = client.isCluster === true ? client.duplicate() : client.duplicate(PATIENT)
  own.on('error', ignore)
  own.on('message', heard)
  own.on('ready', heard)
  own.subscribe(channel).catch(ignore)
  return () => own.disconnect!()
}

function subscribeNodeRedis(client: CanDuplicate, channel: string, heard: () => void): () => void {
  const own = client.duplicate()
  own.on('error', ignore)
  own.on('ready', heard)
  let isEnded = false
  const end = (): void => {
    isEnded = true
    try {
      own.destroy!()
    } catch {
      // It has no connection.
    }
  }
  const begin = async (): Promise<void> => {
    await own.connect!()
    if (isEnded) return end()
    await own.subscribe(channel, heard)
    heard()
  }
  begin().catch(ignore)
  return end
}

/** Options of `rulesFromRedis`. */
export interface RedisRulesOptions<Input> extends SourceOptions<Input>, RedisPlace {
  /**
   * How often Redis is asked for a new version, in case an announcement did not arrive. Default `'10s'`, and `'500ms'` with a client that cannot subscribe
   * (valkey-glide, a pool of node-redis).
   */
  readonly pollInterval?: Duration
}

/** Milliseconds after which a call without an answer counts as a failure. */
const ANSWER = 5000
/** The most milliseconds between a failure and the next read. */
const RETRY = 1000
/** Milliseconds over which processes spread their reads of a new document. */
const SPREAD = 100

/**
 * Rules from Redis, written by `npx sluice rules push` and `pushRules`. A push is announced, and every process has it within a second. A process that misses
 * the announcement finds the push when it polls. You connect and close the client. Announcements arrive on a second connection, which `duplicate()` of the
 * client creates. `rules.close()` closes it.
 *
 * Rejects with `INVALID_RULES` or `RULES_UNREACHABLE` if there are no rules at the start and no `fallback`, `INVALID_OPTION`,
 * `UNKNOWN_OPTION`.
 * @example
 * const rules = await rulesFromRedis(client, {
 *   name: 'api',
 *   attributes: (request: express.Request) => ({ tenant: request.get('x-tenant') }),
 * })
 * app.use(rateLimit({ rules, store: redisStore(client) }))
 */
export async function rulesFromRedis<Input = unknown>(
  client: RedisClient,
  options: RedisRulesOptions<Input> = {},
): Promise<Rules<Input>> {
  options = sourceOptions('rulesFromRedis', options, ...PLACE, 'pollInterval')
  const { name = 'rules' } = options
  const document = new RedisDocument(client, options)
  // valkey-glide and pools of node-redis cannot create a second connection.
  const hears = 'duplicate' in client && 'subscribe' in client
  const { pollInterval = hears ? '10s' : '500ms' } = options
  const interval = milliseconds('pollInterval', pollInterval)
  return startRules(options, (feed) => {
    const reads = repeatedReads(document, name, interval, feed)
    const end = hears ? subscribe(client, document.channel, reads.notice) : undefined
    return () => {
      reads.stop()
      end?.()
    }
  })
}

/** Reads the document when a push is announced, and regularly. */
function repeatedReads(document: RedisDocument, name: string, interval: number, feed: RulesFeed): Looks {
  /** The identity of the last reported document; empty after a failure, so that the next read reports it again. */
  let reported = ''

  function fail(error: unknown, loss?: Loss): void {
    reported = ''
    feed.unreachable(error, loss)
  }

  async function report(found: Awaited<ReturnType<RedisDocument['read']>>): Promise<void> {
    if (found === 'same') return
    // The rules were never pushed, or Redis has lost its data.
    if (found === undefined)
      return fail(new Error(`Redis has no rules named "${name}". Push them with \`npx sluice rules push\``), 'missing')
    const { version, identity, json } = found
    reported = identity
    if (json === undefined) return feed.invalid(tooLarge('json'))
    const parsed = await parseText(json, 'json')
    const problems = 'problems' in parsed ? parsed.problems : feed.document(parsed.value, version)
    if (problems.length > 0) feed.invalid(problems)
  }

  async function read(): Promise<number> {
    const cancel = background(ANSWER, () => fail(new Error(`Redis did not answer within ${ANSWER} ms`)))
    try {
      await report(await document.read(reported))
    } catch (error) {
      fail(error)
    }
    cancel()
    return reported === '' ? Math.min(RETRY, interval) : interval
  }

  return repeatedLooks(read, () => Math.random() * SPREAD)
}
