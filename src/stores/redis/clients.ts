import { SluiceError, veiled } from '../../util/errors.ts'

/** What the store asks of a client: to run a script, by its name or whole. */
export interface ScriptRunner {
  /** True when keys of one script must share a slot. */
  readonly cluster: boolean
  /** What the client itself puts before every key; slots depend on it. */
  readonly keyPrefix: string
  evalsha(sha: string, keys: readonly string[], args: readonly string[]): Promise<unknown>
  eval(text: string, keys: readonly string[], args: readonly string[]): Promise<unknown>
}

/** ioredis and iovalkey: a single server, or a `Cluster`. */
export interface IoredisLike {
  readonly isCluster?: boolean
  readonly options?: { readonly keyPrefix?: string | undefined }
  evalsha(sha: string, keys: number, ...rest: string[]): Promise<unknown>
  eval(text: string, keys: number, ...rest: string[]): Promise<unknown>
}

interface ScriptOptions {
  keys: string[]
  arguments: string[]
}

/** node-redis: `createClient()`, `createCluster()`, a pool, or a sentinel. */
export interface NodeRedisLike {
  evalSha(sha: string, options: ScriptOptions): Promise<unknown>
  eval(text: string, options: ScriptOptions): Promise<unknown>
  /** Only a cluster has slots. */
  readonly slots?: unknown
  /** Its option `keyPrefix`: a text or a Buffer. */
  readonly _keyPrefix?: { toString(): string } | undefined
}

/** valkey-glide: `GlideClient` or `GlideClusterClient`. */
export interface GlideLike {
  customCommand(command: string[]): Promise<unknown>
  /** Sharded channels are a cluster's: only its client has them. */
  readonly ssubscribe?: unknown
}

export type RedisClient = IoredisLike | NodeRedisLike | GlideLike

/**
 * What speaks to a client, told by the methods it has; `cluster`, where given, goes before what the client seems to be.
 * Throws `INVALID_OPTION` for what is no client.
 */
export function runnerFor(client: RedisClient, cluster: boolean | undefined): ScriptRunner {
  if (typeof client === 'object' && client !== null) {
    if ('evalsha' in client) return ioredisRunner(client, cluster)
    if ('evalSha' in client) return nodeRedisRunner(client, cluster)
    if ('customCommand' in client) return glideRunner(client, cluster)
  }
  throw new SluiceError(
    'INVALID_OPTION',
    'redisStore: expected a client of ioredis, iovalkey, node-redis or valkey-glide, such as new Redis(url), or createClient({ url }) ' +
      `once it is connected; got ${veiled(client)}`,
  )
}

function ioredisRunner(client: IoredisLike, cluster: boolean = client.isCluster === true): ScriptRunner {
  return {
    cluster,
    keyPrefix: client.options?.keyPrefix ?? '',
    evalsha: (sha, keys, args) => client.evalsha(sha, keys.length, ...keys, ...args),
    eval: (text, keys, args) => client.eval(text, keys.length, ...keys, ...args),
  }
}

function nodeRedisRunner(client: NodeRedisLike, cluster: boolean = 'slots' in client): ScriptRunner {
  const options = (keys: readonly string[], args: readonly string[]): ScriptOptions => ({
    keys: [...keys],
    arguments: [...args],
  })
  const { _keyPrefix: keyPrefix = '' } = client
  return {
    cluster,
    keyPrefix: keyPrefix.toString(),
    evalsha: (sha, keys, args) => client.evalSha(sha, options(keys, args)),
    eval: (text, keys, args) => client.eval(text, options(keys, args)),
  }
}

function glideRunner(client: GlideLike, cluster: boolean = 'ssubscribe' in client): ScriptRunner {
  const command = (name: string, script: string, keys: readonly string[], args: readonly string[]): Promise<unknown> =>
    client.customCommand([name, script, String(keys.length), ...keys, ...args])
  return {
    cluster,
    keyPrefix: '',
    evalsha: (sha, keys, args) => command('EVALSHA', sha, keys, args),
    eval: (text, keys, args) => command('EVAL', text, keys, args),
  }
}
