import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { builtPackage } from './built.ts'
import { endProcess, freePort, type RedisServer } from './redis.ts'

const worker = fileURLToPath(new URL('remote-worker.mjs', import.meta.url))

/** Starts a process that counts for others over HTTP. It can be killed and restarted as a Redis. */
export async function startServing(): Promise<RedisServer> {
  const [home, port] = [await builtPackage(), await freePort()]
  const launch = async (): Promise<ChildProcess> => {
    const launched = spawn(process.execPath, [worker, home, String(port)], { stdio: ['ignore', 'pipe', 'inherit'] })
    await once(launched.stdout, 'data')
    return launched
  }
  let child = await launch()
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    get process() {
      return child
    },
    kill: () => endProcess(child),
    async restart() {
      child = await launch()
    },
    stop: () => endProcess(child),
  }
}
