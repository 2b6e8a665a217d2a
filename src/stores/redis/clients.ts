import calculateSlot from 'cluster-key-slot'
import { messageOf, shown, SluiceError, veiled } from '../../util/errors.ts'

/** How a script is called: by the hash of its text, by its text, or as a function of a library. */
type Command = 'evalsha' | 'eval' | 'fcall'

type Call = (command: Command, script: string, keys: readonly string[], args: readonly string[]) => Promise<unknown>

/** The common interface of clients. */
export interface ScriptClient {
  /** True when keys of one call must share a slot. */
  readonly cluster: boolean
  /** The prefix that the client itself puts before every key. Slots depend on it. */
  readonly keyPrefix: string
  /** Returns the server of a slot, such as `127.0.0.1:7000`; `undefined` if the client does not know it. */
  nodeOf(slot: number): string | undefined
  readonly call: Call
  /**
   * Loads a library, one Promise for each primary. `undefined` for a client that has no method for functions, or that sends the text of a script first: it
   * calls no `fcall`.
   */
  readonly load: ((library: string) => readonly Promise<unknown>[]) | undefined
  /** True if a second call costs more than a long one, as over HTTP: the first call sends the text of the script. */
  readonly sendsText: boolean
  /**
   * Makes the client look for its servers again, because the server of a key does not answer. `undefined` for a client that cannot do this, that does it
   * itself, or that has one server.
   */
  readonly lookAgain: ((key: string) => Promise<unknown>) | undefined
}

/** A client of one server of ioredis or iovalkey. */
interface IoredisNode {
  /** Sends any command. */
  call?(command: string, ...args: string[]): Promise<unknown>
}

/** ioredis and iovalkey: a single server, or a `Cluster`. */
export interface IoredisLike extends IoredisNode {
  /** True for a cluster. */
  readonly isCluster?: boolean
  /** Its option `keyPrefix` is respected. With `sentinels` it can connect to another server. */
  readonly options?: {
    readonly keyPrefix?: string | undefined
    readonly sentinels?: unknown
    readonly enableAutoPipelining?: boolean | undefined
  }
  /** Makes a pipeline. A cluster with auto-pipelining needs it. */
  pipeline?(): unknown
  /** Sends `EVALSHA`. */
  evalsha(sha: string, keys: number, ...rest: string[]): Promise<unknown>
  /** Sends `EVAL`. */
  eval(text: string, keys: number, ...rest: string[]): Promise<unknown>
  /** Sends `FCALL`. Without this method, scripts are used. */
  fcall?(name: string, keys: number, ...rest: string[]): Promise<unknown>
  /** The servers of each slot, the primary first. Only a cluster has them. */
  readonly slots?: unknown
  /** Returns the primaries of a cluster. */
  nodes?(role: 'master'): readonly IoredisNode[]
  /** Asks a server for the list of servers. Only a cluster has this method. */
  refreshSlotsCache?(): void
  /** `'ready'` or `'connect'` while there is a connection. */
  readonly status?: string
  /** Closes the connection. With `true`, the client connects again. */
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
  /** Sends `FCALL`. Without this method, scripts are used. */
  fCall?(name: string, options: ScriptOptions): Promise<unknown>
  /** Sends `FUNCTION LOAD`. */
  functionLoad?(text: string): Promise<unknown>
  /** The slots. Only a cluster has them. */
  readonly slots?: unknown
  /** The primaries. Only a cluster has them. */
  readonly masters?: readonly unknown[]
  /** Returns the client of one server of a cluster. */
  nodeClient?(node: never): unknown
  /** Sends any command. A cluster also takes a key, and whether the command only reads. */
  sendCommand?(...args: never[]): Promise<unknown>
  /** Its option `keyPrefix`: a text or a Buffer. */
  readonly _keyPrefix?: { toString(): string } | undefined
}

/** A server of a cluster in node-redis. */
interface Primary {
  readonly address: string
}

/** A slot in node-redis. */
interface Shard {
  readonly master?: Primary
}

/** valkey-glide: `GlideClient` or `GlideClusterClient`. */
export interface GlideLike {
  /** Sends a command. */
  customCommand(command: string[]): Promise<unknown>
  /** Subscribes to sharded channels. Only the client of a cluster has this method. */
  readonly ssubscribe?: unknown
}

/** @upstash/redis: a client that speaks HTTP. */
export interface UpstashLike {
  /** Sends `EVALSHA`. */
  evalsha(sha: string, keys: string[], args: string[]): Promise<unknown>
  /** Sends `EVAL`. */
  eval(text: string, keys: string[], args: string[]): Promise<unknown>
  /** Only this client has this method. */
  createScript(text: string): unknown
}

/** A client of ioredis, iovalkey, node-redis, valkey-glide or @upstash/redis. */
export type RedisClient = IoredisLike | NodeRedisLike | GlideLike | UpstashLike

/**
 * Returns the common interface of a client, which is recognised by its methods. `cluster` replaces what the client seems to be. Throws `INVALID_OPTION`
 * for anything but a client.
 */
export function scriptClient(client: RedisClient, cluster: boolean | undefined): ScriptClient {
  if (typeof client === 'object' && client !== null) {
    if (answersCallbacks(client)) throw new SluiceError('INVALID_OPTION', CALLBACKS)
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

const CALLBACKS =
  'client: this client answers callbacks and returns no promises: it is node-redis 3 or older, or has `legacyMode`. Use node-redis 4 or newer without ' +
  '`legacyMode`. With `legacyMode` of node-redis 4, pass `client.v4`'

/** Returns true for node-redis 2 and 3, and for node-redis 4 with `legacyMode`. */
function answersCallbacks(client: object): boolean {
  const { options } = client as { readonly options?: { readonly legacyMode?: unknown } }
  return 'internal_send_command' in client || options?.legacyMode === true
}

/** The slots of a part if servers are not known. Servers own ranges of slots, so most parts of this size are on one server. */
const SLOTS_IN_PART = 256

/** Returns the server of a cluster that has a key, or a range of slots if the client does not know servers; `''` if there is one server. */
export function serverOf(client: ScriptClient, key: string): string {
  if (!client.cluster) return ''
  const slot = calculateSlot(client.keyPrefix + key)
  const first = slot - (slot % SLOTS_IN_PART)
  return client.nodeOf(slot) ?? `slots ${first} to ${first + SLOTS_IN_PART - 1}`
}

function ioredisClient(client: IoredisLike, cluster: boolean = client.isCluster === true): ScriptClient {
  // Auto-pipelining of ioredis 5 and iovalkey takes the slot of a script from its hash, so scripts of several servers share a pipeline, which fails.
  const hasOwnPipelines = client.isCluster === true && client.options?.enableAutoPipelining === true
  return {
    cluster,
    keyPrefix: client.options?.keyPrefix ?? '',
    nodeOf: (slot) => (client.slots as readonly (readonly string[])[] | undefined)?.[slot]?.[0],
    call: (command, script, keys, args) => {
      const words = [script, keys.length, ...keys, ...args] as const
      return hasOwnPipelines ? inOwnPipeline(client, command, words) : client[command]!(...words)
    },
    load: client.fcall && client.call && ((library) => loadIoredis(client, library)),
    sendsText: false,
    lookAgain: ioredisLookAgain(client),
  }
}

async function inOwnPipeline(client: IoredisLike, command: Command, words: readonly unknown[]): Promise<unknown> {
  type Pipeline = Record<Command, (...words: readonly unknown[]) => { exec(): Promise<[[Error | null, unknown]]> }>
  const [[error, reply]] = await (client.pipeline!() as Pipeline)[command](...words).exec()
  if (error) throw error
  return reply
}

function loadIoredis(client: IoredisLike, library: string): readonly Promise<unknown>[] {
  return (client.nodes?.('master') ?? [client]).map(async (node) => node.call!('FUNCTION', 'LOAD', library))
}

function ioredisLookAgain(client: IoredisLike): ScriptClient['lookAgain'] {
  if (client.refreshSlotsCache !== undefined) return async () => client.refreshSlotsCache!()
  if (!client.options?.sentinels) return undefined
  // A new connection asks the sentinels. A client that is connecting has asked them already.
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
    call: (command, script, keys, args) =>
      client[NODE_REDIS[command]]!(script, { keys: [...keys], arguments: [...args] }),
    load: client.fCall && client.functionLoad && ((library) => loadNodeRedis(client, library)),
    sendsText: false,
    lookAgain: client.masters && ((key) => provokeRedirect(client, prefix + key, nodeOf)),
  }
}

const NODE_REDIS = { evalsha: 'evalSha', eval: 'eval', fcall: 'fCall' } as const

function loadNodeRedis(client: NodeRedisLike, library: string): readonly Promise<unknown>[] {
  const loadOn = async (node: unknown): Promise<unknown> => {
    const primary = (await client.nodeClient!(node as never)) as NodeRedisLike
    return primary.functionLoad!(library)
  }
  return client.masters?.map(loadOn) ?? [client.functionLoad!(library)]
}

/**
 * Makes a cluster of node-redis look for its servers, which it only does when it is redirected. Asks another server for the key. If the answer names a
 * new server, sends a read to the cluster without a key for routing, so that it is redirected.
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

function glideClient(client: GlideLike, cluster: boolean = 'ssubscribe' in client): ScriptClient {
  return {
    cluster,
    keyPrefix: '',
    nodeOf: () => undefined,
    call: (command, script, keys, args) =>
      client.customCommand([command.toUpperCase(), script, String(keys.length), ...keys, ...args]),
    // Glide sends this command to all primaries.
    load: (library) => [client.customCommand(['FUNCTION', 'LOAD', library])],
    sendsText: false,
    // Glide looks for servers when it is redirected, but all calls would wait for the frozen server in the meantime.
    lookAgain: undefined,
  }
}

function upstashClient(client: UpstashLike, cluster: boolean = false): ScriptClient {
  return {
    cluster,
    keyPrefix: '',
    nodeOf: () => undefined,
    call: (command, script, keys, args) => upstashReply(client[command as 'eval'](script, [...keys], [...args])),
    load: undefined,
    sendsText: true,
    lookAgain: undefined,
  }
}

/**
 * Checks a reply. An aborted request resolves with a text. The command at the end of an error message is removed, because words of a script could be taken
 * for words of the server.
 */
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
