import { messageOf, shown, SluiceError, veiled } from '../../util/errors.ts'

/** What the store needs of a client: to run a script, by its hash or its text, or the function of a library. */
export interface ScriptClient {
  /** True when keys of one call must share a slot. */
  readonly cluster: boolean
  /** What the client itself puts before every key; slots depend on it. */
  readonly keyPrefix: string
  /** The server of a slot, such as `127.0.0.1:7000`; `undefined` where the client does not say. */
  nodeOf(slot: number): string | undefined
  evalsha(sha: string, keys: readonly string[], args: readonly string[]): Promise<unknown>
  eval(text: string, keys: readonly string[], args: readonly string[]): Promise<unknown>
  /** Functions; `undefined` for a client that has no method for them. */
  readonly functions: FunctionClient | undefined
}

interface FunctionClient {
  call(name: string, keys: readonly string[], args: readonly string[]): Promise<unknown>
  /** Loads a library, one Promise for each primary. */
  load(text: string): readonly Promise<unknown>[]
}

/** One server as ioredis and iovalkey see it. */
interface IoredisNode {
  /** Sends any command. */
  call?(command: string, ...args: string[]): Promise<unknown>
}

/** ioredis and iovalkey: a single server, or a `Cluster`. */
export interface IoredisLike extends IoredisNode {
  /** True for a cluster. */
  readonly isCluster?: boolean
  /** Its option `keyPrefix` is respected. */
  readonly options?: { readonly keyPrefix?: string | undefined }
  /** Sends `EVALSHA`. */
  evalsha(sha: string, keys: number, ...rest: string[]): Promise<unknown>
  /** Sends `EVAL`. */
  eval(text: string, keys: number, ...rest: string[]): Promise<unknown>
  /** Sends `FCALL`. Without it scripts are used. */
  fcall?(name: string, keys: number, ...rest: string[]): Promise<unknown>
  /** Only a cluster has slots and nodes: the servers of each slot, its primary first. */
  readonly slots?: unknown
  /** Returns the primaries of a cluster. */
  nodes?(role: 'master'): readonly IoredisNode[]
}

interface ScriptOptions {
  keys: string[]
  arguments: string[]
}

/** node-redis: `createClient()`, `createCluster()`, a pool, or a sentinel. */
export interface NodeRedisLike {
  /** Sends `EVALSHA`. */
  evalSha(sha: string, options: ScriptOptions): Promise<unknown>
  /** Sends `EVAL`. */
  eval(text: string, options: ScriptOptions): Promise<unknown>
  /** Sends `FCALL`. Without it scripts are used. */
  fCall?(name: string, options: ScriptOptions): Promise<unknown>
  /** Sends `FUNCTION LOAD`. */
  functionLoad?(text: string): Promise<unknown>
  /** Only a cluster has slots, and primaries. */
  readonly slots?: unknown
  /** The primaries of a cluster. */
  readonly masters?: readonly unknown[]
  /** Returns the client of one server of a cluster. */
  nodeClient?(node: never): unknown
  /** Its option `keyPrefix`: a text or a Buffer. */
  readonly _keyPrefix?: { toString(): string } | undefined
}

/** What node-redis knows of a slot. */
interface Shard {
  readonly master?: { readonly address: string }
}

/** valkey-glide: `GlideClient` or `GlideClusterClient`. */
export interface GlideLike {
  /** Sends a command. */
  customCommand(command: string[]): Promise<unknown>
  /** Sharded channels are a cluster's: only its client has them. */
  readonly ssubscribe?: unknown
}

/** @upstash/redis: a client that speaks HTTP. */
export interface UpstashLike {
  /** Sends `EVALSHA`. */
  evalsha(sha: string, keys: string[], args: string[]): Promise<unknown>
  /** Sends `EVAL`. */
  eval(text: string, keys: string[], args: string[]): Promise<unknown>
  /** Functions. Without them scripts are used. */
  readonly functions?: {
    load(library: { code: string }): Promise<unknown>
    call(name: string, keys: string[], args: string[]): Promise<unknown>
  }
  /** Only this client has it. */
  createScript(text: string): unknown
}

/** A client of ioredis, iovalkey, node-redis, valkey-glide or @upstash/redis. */
export type RedisClient = IoredisLike | NodeRedisLike | GlideLike | UpstashLike

/**
 * How to speak to a client, known by the methods it has; `cluster`, where given, goes before what the client seems to be.
 * Throws `INVALID_OPTION` for what is no client.
 */
export function scriptClient(client: RedisClient, cluster: boolean | undefined): ScriptClient {
  if (typeof client === 'object' && client !== null) {
    if ('createScript' in client) return upstashClient(client, cluster)
    if ('evalsha' in client) return ioredisClient(client, cluster)
    if ('evalSha' in client) return nodeRedisClient(client, cluster)
    if ('customCommand' in client) return glideClient(client, cluster)
  }
  throw new SluiceError(
    'INVALID_OPTION',
    'client: expected a client of ioredis, iovalkey, node-redis, valkey-glide or @upstash/redis, such as new Redis(url), or createClient({ url }) ' +
      `after it has connected; got ${veiled(client)}`,
  )
}

function ioredisClient(client: IoredisLike, cluster: boolean = client.isCluster === true): ScriptClient {
  return {
    cluster,
    keyPrefix: client.options?.keyPrefix ?? '',
    nodeOf: (slot) => (client.slots as readonly (readonly string[])[] | undefined)?.[slot]?.[0],
    evalsha: (sha, keys, args) => client.evalsha(sha, keys.length, ...keys, ...args),
    eval: (text, keys, args) => client.eval(text, keys.length, ...keys, ...args),
    functions: client.fcall && client.call && ioredisFunctions(client),
  }
}

function ioredisFunctions(client: IoredisLike): FunctionClient {
  return {
    call: (name, keys, args) => client.fcall!(name, keys.length, ...keys, ...args),
    load: (text) => (client.nodes?.('master') ?? [client]).map(async (node) => node.call!('FUNCTION', 'LOAD', text)),
  }
}

function nodeRedisClient(client: NodeRedisLike, cluster: boolean = 'slots' in client): ScriptClient {
  const { _keyPrefix: keyPrefix = '' } = client
  return {
    cluster,
    keyPrefix: keyPrefix.toString(),
    nodeOf: (slot) => (client.slots as readonly Shard[] | undefined)?.[slot]?.master?.address,
    evalsha: (sha, keys, args) => client.evalSha(sha, scriptOptions(keys, args)),
    eval: (text, keys, args) => client.eval(text, scriptOptions(keys, args)),
    functions: client.fCall && client.functionLoad && nodeRedisFunctions(client),
  }
}

function nodeRedisFunctions(client: NodeRedisLike): FunctionClient {
  const loadOn = async (node: unknown, text: string): Promise<unknown> => {
    const primary = (await client.nodeClient!(node as never)) as NodeRedisLike
    return primary.functionLoad!(text)
  }
  return {
    call: (name, keys, args) => client.fCall!(name, scriptOptions(keys, args)),
    load: (text) => client.masters?.map((node) => loadOn(node, text)) ?? [client.functionLoad!(text)],
  }
}

function scriptOptions(keys: readonly string[], args: readonly string[]): ScriptOptions {
  return { keys: [...keys], arguments: [...args] }
}

function glideClient(client: GlideLike, cluster: boolean = 'ssubscribe' in client): ScriptClient {
  const command = (name: string, script: string, keys: readonly string[], args: readonly string[]): Promise<unknown> =>
    client.customCommand([name, script, String(keys.length), ...keys, ...args])
  return {
    cluster,
    keyPrefix: '',
    nodeOf: () => undefined,
    evalsha: (sha, keys, args) => command('EVALSHA', sha, keys, args),
    eval: (text, keys, args) => command('EVAL', text, keys, args),
    functions: {
      call: (name, keys, args) => command('FCALL', name, keys, args),
      // Glide sends it to all primaries.
      load: (text) => [client.customCommand(['FUNCTION', 'LOAD', text])],
    },
  }
}

function upstashClient(client: UpstashLike, cluster: boolean = false): ScriptClient {
  const { functions } = client
  return {
    cluster,
    keyPrefix: '',
    nodeOf: () => undefined,
    evalsha: (sha, keys, args) => upstashReply(client.evalsha(sha, [...keys], [...args])),
    eval: (text, keys, args) => upstashReply(client.eval(text, [...keys], [...args])),
    functions: functions && {
      call: (name, keys, args) => upstashReply(functions.call(name, [...keys], [...args])),
      load: (text) => [upstashResult(functions.load({ code: text }))],
    },
  }
}

/** An aborted request resolves with a text. */
async function upstashReply(sent: Promise<unknown>): Promise<unknown> {
  const reply = await upstashResult(sent)
  if (Array.isArray(reply)) return reply
  throw new Error(`The client got no answer: ${shown(reply)}`)
}

/** The message of an error ends with the command. Words of a script in it would pass for those of the server. */
async function upstashResult(sent: Promise<unknown>): Promise<unknown> {
  try {
    return await sent
  } catch (cause) {
    throw new Error(messageOf(cause).replace(/, command was: [^]*$/, ''), { cause })
  }
}
