import type { IncomingMessage } from 'node:http'
import { json } from 'node:stream/consumers'
import { Redis } from 'ioredis'
import { serve } from './http.ts'

/** A proxy that speaks the REST protocol of Upstash, in front of a real Redis. */
export interface RestProxy {
  readonly url: string
  readonly token: string
  /** The paths of the requests. */
  readonly paths: string[]
  /** The names of the commands in these requests. */
  readonly commands: string[]
  /** Answers the next requests with these texts, and the status 500, without Redis. */
  readonly failures: string[]
  close(): Promise<void>
}

type Command = readonly [name: string, ...args: (string | number)[]]

interface Answer {
  readonly result?: unknown
  readonly error?: string
}

const TOKEN = 'test-token'

/** Starts a proxy on a free port of this machine. */
export async function startRestProxy(port: number): Promise<RestProxy> {
  const redis = new Redis(port, '127.0.0.1', { maxRetriesPerRequest: 1 }).on('error', () => undefined)
  const paths: string[] = []
  const commands: string[] = []
  const failures: string[] = []

  async function answer(request: IncomingMessage): Promise<readonly [status: number, body: string]> {
    const body = await json(request)
    paths.push(request.url!)
    const failure = failures.shift()
    if (failure !== undefined) return [500, failure]
    if (request.headers.authorization !== `Bearer ${TOKEN}`) return [401, JSON.stringify({ error: 'Unauthorized' })]
    const encode = request.headers['upstash-encoding'] === 'base64' ? base64 : (value: unknown): unknown => value
    if (request.url === '/') {
      const one = await run(body as Command)
      return one.error === undefined
        ? [200, JSON.stringify({ result: encode(one.result) })]
        : [400, JSON.stringify(one)]
    }
    const answers = await all(body as readonly Command[], request.url === '/multi-exec')
    return [
      200,
      JSON.stringify(
        answers.map(({ error, result }) => (error === undefined ? { result: encode(result) } : { error })),
      ),
    ]
  }

  function run([name, ...args]: Command): Promise<Answer> {
    commands.push(name.toLowerCase())
    return redis.call(name, ...args.map(understood)).then(
      (result) => ({ result }),
      (error: unknown) => ({ error: (error as Error).message }),
    )
  }

  async function all(commands: readonly Command[], isAtomic: boolean): Promise<readonly Answer[]> {
    if (isAtomic) await redis.multi({ pipeline: false })
    const answers = await Promise.all(commands.map((each) => run(each)))
    if (!isAtomic) return answers
    const results = (await redis.call('EXEC')) as readonly unknown[]
    return results.map((result) => (result instanceof Error ? { error: result.message } : { result }))
  }

  const { url, close } = await serve((request, response) => {
    answer(request).then(
      ([status, body]) => response.writeHead(status, { 'Content-Type': 'application/json' }).end(body),
      (error: unknown) => response.writeHead(500).end(JSON.stringify({ error: String(error) })),
    )
  })
  return {
    url,
    token: TOKEN,
    paths,
    commands,
    failures,
    async close() {
      redis.disconnect()
      await close()
    },
  }
}

/** Returns an argument without the flag that only the servers of Upstash know. @upstash/ratelimit sends it with its scripts. */
function understood(argument: string | number): string | number {
  return typeof argument === 'string' ? argument.replace(/^#!lua flags=allow-key-locking$/m, '') : argument
}

/** Strings in base64, also those in arrays. */
function base64(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(base64)
  return typeof value === 'string' && value !== 'OK' ? Buffer.from(value).toString('base64') : value
}
