import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CLI_INTERVAL, redisCli, startCluster, startReplica } from './redis-cluster.ts'
import { freePort, redisCommand, type RedisServer, startRedis } from './redis.ts'
import { eventually } from './server-process.ts'

/** A primary and its replica, which replaces it when it is frozen. */
export interface Replicated {
  /** The port that clients are given: a node of the cluster that stays, or the sentinel. */
  readonly port: number
  readonly primary: RedisServer
  readonly replica: RedisServer
  /** The servers of a cluster that stay. */
  readonly others: readonly RedisServer[]
  /** Stops the primary without closing its connections. */
  freeze(): void
  thaw(): void
  /** Waits until the replica is the primary. */
  promoted(): Promise<void>
  stop(): Promise<void>
}

/** The name of the primary for sentinels. */
export const MASTER = 'limits'

/** Starts a cluster of three primaries. The last one has a replica, which replaces it a second after it was frozen. */
export async function replicatedCluster(...options: readonly string[]): Promise<Replicated> {
  const given = ['--cluster-node-timeout', '1000', '--repl-diskless-sync-delay', '0', ...options]
  const cluster = await startCluster(3, [], given)
  const [first, second, primary] = cluster.nodes as [RedisServer, RedisServer, RedisServer]
  const replica = await startReplica(primary, given).catch(async (error: unknown) => {
    await cluster.stop()
    throw error
  })
  const id = redisCli(primary.port, 'CLUSTER', 'MYID')
  await until(() => redisCli(first.port, 'CLUSTER', 'REPLICAS', id).includes(String(replica.port)))
  const stop = async (): Promise<void> => {
    await replica.stop()
    await cluster.stop()
  }
  return { port: first.port, others: [first, second], ...pair(primary, replica), stop }
}

/** Starts a primary, a replica, and a sentinel that replaces the primary a second after it was frozen. */
export async function replicatedBySentinel(): Promise<Replicated> {
  const primary = await startRedis('--repl-diskless-sync-delay', '0')
  const replica = await startRedis('--replicaof', '127.0.0.1', String(primary.port))
  await until(() => redisCli(replica.port, 'INFO', 'replication').includes('master_link_status:up'))
  const sentinel = await startSentinel(primary.port)
  await until(() => redisCli(sentinel.port, 'SENTINEL', 'REPLICAS', MASTER).includes(String(replica.port)))
  const stop = async (): Promise<void> => {
    sentinel.stop()
    await replica.stop()
    await primary.stop()
  }
  return { port: sentinel.port, others: [], ...pair(primary, replica), stop }
}

type Pair = Pick<Replicated, 'primary' | 'replica' | 'freeze' | 'thaw' | 'promoted'>

function pair(primary: RedisServer, replica: RedisServer): Pair {
  return {
    primary,
    replica,
    freeze: () => void primary.process.kill('SIGSTOP'),
    thaw: () => void primary.process.kill('SIGCONT'),
    promoted: () => until(() => redisCli(replica.port, 'ROLE').startsWith('master')),
  }
}

async function startSentinel(primary: number): Promise<{ port: number; stop(): void }> {
  const port = await freePort()
  const directory = mkdtempSync(join(tmpdir(), 'sluice-sentinel-'))
  const file = join(directory, 'sentinel.conf')
  const settings = [
    `port ${port}`,
    'bind 127.0.0.1',
    `dir ${directory}`,
    `sentinel monitor ${MASTER} 127.0.0.1 ${primary} 1`,
    `sentinel down-after-milliseconds ${MASTER} 1000`,
    `sentinel failover-timeout ${MASTER} 3000`,
  ]
  writeFileSync(file, settings.join('\n'))
  const child: ChildProcess = spawn(redisCommand(), [file, '--sentinel'], { stdio: 'ignore' })
  await until(() => redisCli(port, 'PING') === 'PONG')
  return {
    port,
    stop() {
      child.kill('SIGKILL')
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

/** Waits until a condition is met. A server that does not answer yet does not meet it. */
function until(done: () => boolean): Promise<void> {
  const isDone = (): boolean => {
    try {
      return done()
    } catch {
      // The server has just been started.
      return false
    }
  }
  return eventually(isDone, 'The servers come together', 20, CLI_INTERVAL)
}
