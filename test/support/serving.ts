import { fileURLToPath } from 'node:url'
import { builtPackage } from './built.ts'
import { freePort, type RedisServer } from './redis.ts'
import { restartable, startServer } from './server-process.ts'

const worker = fileURLToPath(new URL('remote-worker.mjs', import.meta.url))

/** Starts a process that counts for others over HTTP. It can be killed and restarted as a Redis. */
export async function startServing(): Promise<RedisServer> {
  const [home, port] = [await builtPackage(), await freePort()]
  const running = await restartable(() => startServer(process.execPath, [worker, home, String(port)], /^ready$/m))
  return Object.assign(running, {
    port,
    url: `http://127.0.0.1:${port}`,
    kill: () => running.end(),
    restart: () => running.start(),
    stop: () => running.end(),
  })
}
