import { SluiceError } from '../errors.ts'

/** What the store asks of a client: to run a script, by its name or whole. */
export interface ScriptRunner {
  /** True when keys of one script must share a slot. */
  readonly cluster: boolean
  evalsha(sha: string, keys: readonly string[], args: readonly string[]): Promise<unknown>
  eval(text: string, keys: readonly string[], args: readonly string[]): Promise<unknown>
}

/** ioredis and iovalkey: a single server, or a `Cluster`. */
export interface IoredisLike {
  readonly isCluster?: boolean
  evalsha(sha: string, keys: number, ...rest: string[]): Promise<unknown>
  eval(text: string, keys: number, ...rest: string[]): Promise<unknown>
}

interface ScriptOptions {
  keys: string[]
  arguments: string[]
}

/** node-redis: `createClient()`, `createCluster()`, or a pool. */
export interface NodeRedisLike {
  evalSha(sha: string, options: ScriptOptions): Promise<unknown>
  eval(text: string, options: ScriptOptions): Promise<unknown>
  readonly slots?: unknown
}

/** valkey-glide: `GlideClient` or `GlideClusterClient`. */
export interface GlideLike {
  customCommand(command: string[]): Promise<unknown>
  /** Only the cluster's client scans with a cluster's cursor. */
  scan?(...rest: never[]): unknown
}

export type RedisClient = IoredisLike | NodeRedisLike | GlideLike

/** What speaks to a client, told by the methods it has. Throws `INVALID_OPTION` for what is no client. */
export function runnerFor(client: RedisClient): ScriptRunner {
  if (typeof client === 'object' && client !== null) {
    if ('evalsha' in client) return ioredisRunner(client)
    if ('evalSha' in client) return nodeRedisRunner(client)
    if ('customCommand' in client) return glideRunner(client)
  }
  throw new SluiceError(
    'INVALID_OPTION',
    'redisStore: expected a client of ioredis, iovalkey, node-redis or valkey-glide, with evalsha, evalSha or customCommand',
  )
}

function ioredisRunner(client: IoredisLike): ScriptRunner {
  return {
    cluster: client.isCluster === true,
    evalsha: (sha, keys, args) => client.evalsha(sha, keys.length, ...keys, ...args),
    eval: (text, keys, args) => client.eval(text, keys.length, ...keys, ...args),
  }
}

function nodeRedisRunner(client: NodeRedisLike): ScriptRunner {
  const options = (keys: readonly string[], args: readonly string[]): ScriptOptions => ({ keys: [...keys], arguments: [...args] })
  return {
    cluster: 'slots' in client,
    evalsha: (sha, keys, args) => client.evalSha(sha, options(keys, args)),
    eval: (text, keys, args) => client.eval(text, options(keys, args)),
  }
}

function glideRunner(client: GlideLike): ScriptRunner {
  const command = (name: string, script: string, keys: readonly string[], args: readonly string[]): Promise<unknown> =>
    client.customCommand([name, script, String(keys.length), ...keys, ...args])
  return {
    cluster: 'refreshIamToken' in client && 'ssubscribe' in client,
    evalsha: (sha, keys, args) => command('EVALSHA', sha, keys, args),
    eval: (text, keys, args) => command('EVAL', text, keys, args),
  }
}
