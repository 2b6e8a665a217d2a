import calculateSlot from 'cluster-key-slot'
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
  /** Functions; `undefined` for a client that has no method for them, or that sends the text of a script first. */
  readonly functions: FunctionClient | undefined
  /** True if a second call costs more than a long one, as over HTTP: the first call sends the text of the script. */
  readonly sendsText: boolean
  /**
   * Has the client look for its servers again, since the server of this key does not answer; `undefined` for a client that cannot, that does so
   * itself, or that has one server.
   */
  readonly lookAgain: ((key: string) => Promise<unknown>) | undefined
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
  /** Its option `keyPrefix` is respected. With `sentinels` it can connect to another server. */
  readonly options?: { readonly keyPrefix?: string | undefined; readonly sentinels?: unknown }
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
  /** Only a cluster has it: asks a server which servers there are. */
  refreshSlotsCache?(): void
  /** `'ready'` or `'connect'` while there is a connection. */
  readonly status?: string
  /** Closes the connection. With `true` another is made. */
  disconnect?(reconnect?: boolean): void
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
  /** Sends any command. A cluster also takes a key, and whether the command only reads. */
  sendCommand?(...args: never[]): Promise<unknown>
  /** Its option `keyPrefix`: a text or a Buffer. */
  readonly _keyPrefix?: { toString(): string } | undefined
}

/** A server of a cluster as node-redis sees it. */
interface Primary {
  readonly address: string
}

/** What node-redis knows of a slot. */
interface Shard {
  readonly master?: Primary
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

/** Servers own ranges of slots, so most parts of this size are on one server. */
const SLOTS_IN_PART = 256

/** The server of a cluster that has a key, or the slots around it if the client names no servers; `''` if there is one server. */
export function serverOf(client: ScriptClient, key: string): string {
  if (!client.cluster) return ''
  const slot = calculateSlot(client.keyPrefix + key)
  const first = slot - (slot % SLOTS_IN_PART)
  return client.nodeOf(slot) ?? `slots ${first} to ${first + SLOTS_IN_PART - 1}`
}

function ioredisClient(client: IoredisLike, cluster: boolean = client.isCluster === true): ScriptClient {
  return {
    cluster,
    keyPrefix: client.options?.keyPrefix ?? '',
    nodeOf: (slot) => (client.slots as readonly (readonly string[])[] | undefined)?.[slot]?.[0],
    evalsha: (sha, keys, args) => client.evalsha(sha, keys.length, ...keys, ...args),
    eval: (text, keys, args) => client.eval(text, keys.length, ...keys, ...args),
    functions: client.fcall && client.call && ioredisFunctions(client),
    sendsText: false,
    lookAgain: ioredisLookAgain(client),
  }
}

function ioredisFunctions(client: IoredisLike): FunctionClient {
  return {
    call: (name, keys, args) => client.fcall!(name, keys.length, ...keys, ...args),
    load: (text) => (client.nodes?.('master') ?? [client]).map(async (node) => node.call!('FUNCTION', 'LOAD', text)),
  }
}

function ioredisLookAgain(client: IoredisLike): ScriptClient['lookAgain'] {
  if (client.refreshSlotsCache !== undefined) return async () => client.refreshSlotsCache!()
  if (!client.options?.sentinels) return undefined
  // A new connection asks the sentinels. While the client connects, it has asked them already.
  return async () => {
    if (client.status === 'ready' || client.status === 'connect') client.disconnect?.(true)
  }
}

function nodeRedisClient(client: NodeRedisLike, cluster: boolean = 'slots' in client): ScriptClient {
  const { _keyPrefix: keyPrefix = '' } = client
  const prefix = keyPrefix.toString()
  const nodeOf = (slot: number): string | undefined =>
    (client.slots as readonly Shard[] | undefined)?.[slot]?.master?.address
  return {
    cluster,
    keyPrefix: prefix,
    nodeOf,
    evalsha: (sha, keys, args) => client.evalSha(sha, scriptOptions(keys, args)),
    eval: (text, keys, args) => client.eval(text, scriptOptions(keys, args)),
    functions: client.fCall && client.functionLoad && nodeRedisFunctions(client),
    sendsText: false,
    lookAgain: client.masters && ((key) => provokeRedirect(client, prefix + key, nodeOf)),
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

/**
 * A cluster of node-redis looks for its servers only when it is redirected. So another server is asked for the key. When it names a new
 * server, a read goes to the cluster without a key to route it by, and is redirected.
 */
async function provokeRedirect(client: NodeRedisLike, key: string, nodeOf: ScriptClient['nodeOf']): Promise<void> {
  const silent = nodeOf(calculateSlot(key))
  const others = (client.masters as readonly Primary[]).filter(({ address }) => address !== silent)
  const other = others[Math.floor(Math.random() * others.length)]
  if (other === undefined) return
  const read = ['HGET', key, '']
  const node = (await client.nodeClient!(other as never)) as NodeRedisLike
  const answer = await node.sendCommand!(read as never).catch(messageOf)
  const [code, , server] = String(answer).split(' ')
  if (code !== 'MOVED' || server === silent) return
  await client.sendCommand!(undefined as never, true as never, read as never)
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
    sendsText: false,
    // It searches when it is redirected, but keeps all calls waiting for the frozen server meanwhile.
    lookAgain: undefined,
  }
}

function upstashClient(client: UpstashLike, cluster: boolean = false): ScriptClient {
  return {
    cluster,
    keyPrefix: '',
    nodeOf: () => undefined,
    evalsha: (sha, keys, args) => upstashReply(client.evalsha(sha, [...keys], [...args])),
    eval: (text, keys, args) => upstashReply(client.eval(text, [...keys], [...args])),
    functions: undefined,
    sendsText: true,
    lookAgain: undefined,
  }
}

/** An aborted request resolves with a text. The message of an error ends with the command: words of a script in it would pass for those of the server. */
async function upstashReply(sent: Promise<unknown>): Promise<unknown> {
  let reply: unknown
  try {
    reply = await sent
  } catch (cause) {
    throw new Error(messageOf(cause).replace(/, command was: [^]*$/, ''), { cause })
  }
  if (Array.isArray(reply)) return reply
  throw new Error(`The client got no answer: ${shown(reply)}`)
}
