import { once } from 'node:events'
import { startNode } from '../lib/child.mjs'

const WORKER = new URL('./app.worker.mjs', import.meta.url)

/** Apps in processes of their own, each started when it is first asked for, on a core that they share. */
export function createApps(core) {
  const apps = new Map()

  async function open(framework, limiter) {
    const child = startNode(WORKER, { framework, limiter }, { core })
    let told = ''
    child.stderr.on('data', (data) => (told = (told + data).slice(-4000)))
    const ended = once(child, 'exit').then(() => {
      throw new Error(`The ${framework} app with ${limiter} ended\n${told}`)
    })
    ended.catch(() => {})
    const [{ port }] = await Promise.race([once(child, 'message'), ended])
    return { child, port }
  }

  return {
    async port(framework, limiter) {
      const name = `${framework} ${limiter}`
      if (!apps.has(name)) apps.set(name, open(framework, limiter))
      return (await apps.get(name)).port
    },
    async close() {
      for (const app of apps.values()) {
        const { child } = await app.catch(() => ({}))
        child?.kill()
      }
    },
  }
}
