import { execFileSync } from 'node:child_process'
import { dirname, join } from 'node:path'
import { existsSync } from 'node:fs'
import { redisCommand, type RedisServer, startRedis } from './redis.ts'
import { eventually } from './server-process.ts'

/** A cluster for one test, on free ports of this machine. */
export interface RedisCluster {
  readonly nodes: readonly RedisServer[]
  stop(): Promise<void>
}

const SLOTS = 16_384
/** The bus of a cluster listens on the port of its server plus this. */
const BUS = 10_000
/** Milliseconds between two looks that start a process. */
export const CLI_INTERVAL = 100

export function redisCli(port: number, ...command: readonly string[]): string {
  const server = redisCommand()
  const nextToServer = join(dirname(server), server.includes('valkey') ? 'valkey-cli' : 'redis-cli')
  const cli = existsSync(nextToServer) ? nextToServer : 'redis-cli'
  return execFileSync(cli, ['-h', '127.0.0.1', '-p', String(port), ...command], { encoding: 'utf8' }).trim()
}

/**
 * Starts nodes that share the slots, and waits until all of them agree.
 * @param announced the port that clients connect to, for each node, such as that of a proxy
 * @param options of each server
 */
export async function startCluster(
  size = 3,
  announced: readonly (number | undefined)[] = [],
  options: readonly string[] = [],
): Promise<RedisCluster> {
  const nodes: RedisServer[] = []
  const stop = async (): Promise<void> => {
    await Promise.all(nodes.map((each) => each.stop()))
  }
  try {
    for (let i = 0; i < size; i++) nodes.push(await startNode(announced[i], options))
    for (const [i, { port }] of nodes.entries()) {
      const first = Math.floor((i * SLOTS) / size)
      const last = Math.floor(((i + 1) * SLOTS) / size) - 1
      const slots = Array.from({ length: last - first + 1 }, (_, n) => String(first + n))
      redisCli(port, 'CLUSTER', 'ADDSLOTS', ...slots)
      redisCli(port, 'CLUSTER', 'SET-CONFIG-EPOCH', String(i + 1))
      if (i > 0) meet(port, nodes[0]!.port)
    }
    for (const { port } of nodes) await settled(port, size)
  } catch (error) {
    await stop()
    throw error
  }
  return { nodes, stop }
}

/** Starts a server that can be part of a cluster. */
export function startNode(announced?: number, options: readonly string[] = []): Promise<RedisServer> {
  const ports = announced === undefined ? [] : ['--cluster-announce-port', String(announced)]
  return startRedis('--cluster-enabled', 'yes', '--cluster-node-timeout', '5000', ...ports, ...options)
}

/** Starts a replica of a node, and waits until it has all that its primary has. */
export async function startReplica(primary: RedisServer, options: readonly string[] = []): Promise<RedisServer> {
  const replica = await startNode(undefined, options)
  const id = redisCli(primary.port, 'CLUSTER', 'MYID')
  const joined = (condition: () => boolean): Promise<void> =>
    eventually(condition, 'The replica joins its primary', 20, CLI_INTERVAL)
  try {
    redisCli(primary.port, 'CONFIG', 'SET', 'repl-diskless-sync-delay', '0')
    meet(replica.port, primary.port)
    await joined(() => redisCli(replica.port, 'CLUSTER', 'NODES').includes(id))
    await joined(() => redisCli(replica.port, 'CLUSTER', 'REPLICATE', id) === 'OK')
    await joined(() => redisCli(replica.port, 'INFO', 'replication').includes('master_link_status:up'))
  } catch (error) {
    await replica.stop()
    throw error
  }
  return replica
}

/** Makes one node known to the cluster of another. */
export function meet(port: number, other: number): void {
  redisCli(port, 'CLUSTER', 'MEET', '127.0.0.1', String(other), String(other + BUS))
}

function settled(port: number, size: number): Promise<void> {
  const isSettled = (): boolean => {
    const info = redisCli(port, 'CLUSTER', 'INFO')
    return info.includes('cluster_state:ok') && info.includes(`cluster_known_nodes:${size}`)
  }
  return eventually(isSettled, 'The cluster comes together', 20, CLI_INTERVAL)
}
