import type { RedisClient } from '../../stores/redis/clients.ts'

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

/** True for a client that makes a second connection like itself. valkey-glide and pools of node-redis do not. */
export function canSubscribe(client: RedisClient): boolean {
  return 'duplicate' in client && 'subscribe' in client
}

/**
 * Calls `heard` for each message of a channel, and after each connection, since messages may have been missed before it. A
 * subscription that the server refuses hears nothing. Returns what ends it.
 */
export function subscribe(client: RedisClient, channel: string, heard: () => void): () => void {
  return 'evalsha' in client
    ? subscribeIoredis(client as unknown as CanDuplicate, channel, heard)
    : subscribeNodeRedis(client as unknown as CanDuplicate, channel, heard)
}

/** These wait for the server, whatever the options of the client are. */
const PATIENT = { lazyConnect: false, enableOfflineQueue: true, maxRetriesPerRequest: null }

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
