import { randomBytes } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { consumer, entry } from '../lib/entry.mjs'

const stores = {
  machine: async (root, path) => (await entry(root, 'sluice/machine')).machineStore({ path }),
  sqlite: async (root, path) => (await entry(root, 'sluice/sqlite')).sqliteStore(path, { timeout: '20s' }),
}

/** Prepares the primary of a cluster. It counts for the workers, as that of the peer does. */
export async function primary({ name, root, kind, url }) {
  if (kind === 'machine') await (await stores.machine(root, url)).ready()
  if (name === undefined) return
  const { RateLimiterClusterMaster } = await import('rate-limiter-flexible')
  // oxlint-disable-next-line no-new -- it listens to the workers
  new RateLimiterClusterMaster()
}

/** Returns a function from a key to a decision. */
export async function ours({ root, kind, url }) {
  const { createLimiter, gcra } = await entry(root, 'sluice')
  const store = await stores[kind](root, url)
  const limits = gcra({ quota: 1000, window: '1d', burst: 20_000_000 })
  return consumer(createLimiter({ keyer: (key) => key, limits, store }))
}

export const others = {
  async 'rate-limiter-flexible'() {
    const { RateLimiterCluster } = await import('rate-limiter-flexible')
    const limiter = new RateLimiterCluster({
      keyPrefix: 'bench',
      points: 1_000_000_000,
      duration: 3600,
      timeoutMs: 20_000,
    })
    return (key) => limiter.consume(key)
  },
}

/** Names of new files, by the kind of store. Those of sockets are in folders of their own. */
export function newFile(kind) {
  const name = join(tmpdir(), `sluice-bench-${randomBytes(4).toString('hex')}`)
  return kind === 'machine' ? join(name, 'l') : name
}
