// Builds and runs the projects of docs/guides/web-frameworks.md and docs/guides/nextjs.md with the packed package.
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { packedPackage, run } from '../support/package-projects.ts'
import { readPage } from '../support/pages.ts'
import { blocksOf } from '../support/programs.ts'
import { freePort } from '../support/redis.ts'
import { endProcess, startServer } from '../support/server-process.ts'

// These tests install frameworks from the registry.
vi.setConfig({ testTimeout: 600_000, hookTimeout: 600_000 })

const packed = packedPackage()
const env = { ...process.env, NODE_ENV: undefined, ASTRO_TELEMETRY_DISABLED: '1', NEXT_TELEMETRY_DISABLED: '1' }

/** Returns the files of a page that are for a framework. Their first line is their path. Limits of 100 are limits of 2. */
function filesOf(page: string, framework: string): Record<string, string> {
  const blocks = blocksOf(readPage(page)).filter(({ language }) => language === `ts ${framework}`)
  expect(blocks).not.toEqual([])
  return Object.fromEntries(
    blocks.map(({ code }) => {
      const [path, ...lines] = code.slice('// '.length).split('\n')
      return [path!, lines.join('\n').replace('perMinute(100)', 'perMinute(2)')]
    }),
  )
}

interface Project {
  readonly name: string
  readonly page?: string
  /** What the project needs in addition to the files of the page. */
  readonly files: Readonly<Record<string, string>>
  readonly packages: string
  readonly build: string
  readonly start: readonly string[]
}

/** Builds and starts a project. Returns a function that asks it for a path. */
async function started(project: Project): Promise<(path: string, init?: RequestInit) => Promise<Response>> {
  const { name, page = 'docs/guides/web-frameworks.md', files, packages, build, start } = project
  const fields = { type: 'module' }
  const home = await packed.project(name, fields, { ...files, ...filesOf(page, name) }, ...packages.split(' '))
  const [program, ...words] = build.split(' ')
  await run(join(home, 'node_modules/.bin', program!), words, home, env)
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const settings = { ...env, HOST: '127.0.0.1', PORT: String(port) }
  const server = await startServer(process.execPath, start, `${url}/ready`, { cwd: home, env: settings })
  onTestFinished(() => endProcess(server))
  return (path, init) => fetch(`${url}${path}`, { signal: AbortSignal.timeout(30_000), ...init })
}

const sveltekit: Project = {
  name: 'sveltekit',
  files: {
    'svelte.config.js': `
      import adapter from '@sveltejs/adapter-node'
      export default { kit: { adapter: adapter() } }`,
    'vite.config.js': `
      import { sveltekit } from '@sveltejs/kit/vite'
      export default { plugins: [sveltekit()] }`,
    'src/app.html': '<html><head>%sveltekit.head%</head><body>%sveltekit.body%</body></html>',
    'src/routes/ready/+page.js': 'export const prerender = true',
    'src/routes/ready/+page.svelte': '<p>ready</p>',
    'src/routes/left/+server.ts': `
      import { rateLimitOf } from 'sluice/fetch'
      export const GET = ({ request }) => Response.json({ left: rateLimitOf(request)?.remaining })`,
  },
  packages:
    '@sveltejs/kit@2.70.4 @sveltejs/adapter-node@5.5.7 @sveltejs/vite-plugin-svelte@6.2.3 svelte@5.57.3 vite@7.3.8',
  build: 'vite build',
  start: ['build'],
}

const astro: Project = {
  name: 'astro',
  files: {
    'astro.config.mjs': `
      import node from '@astrojs/node'
      export default { output: 'server', adapter: node({ mode: 'standalone' }) }`,
    'src/pages/ready.astro': '---\nexport const prerender = true\n---\n<p>ready</p>',
    'src/pages/left.ts': `
      import { rateLimitOf } from 'sluice/fetch'
      export const GET = ({ request }) => Response.json({ left: rateLimitOf(request)?.remaining })`,
  },
  packages: 'astro@5.18.2 @astrojs/node@9.5.5',
  build: 'astro build',
  start: ['dist/server/entry.mjs'],
}

const nitro: Project = {
  name: 'nitro',
  files: {
    'nitro.config.ts': `export default { srcDir: 'server', compatibilityDate: '2026-01-01' }`,
    'server/public/ready': 'ready',
    'server/routes/left.ts': `
      import { defineEventHandler } from 'h3'
      import { rateLimitOf } from 'sluice/node'
      export default defineEventHandler(async (event) => {
        for (let i = 0; i < 2; i++) await $fetch('/inner')
        return { left: rateLimitOf(event.node.req)?.remaining }
      })`,
    'server/routes/inner.ts': `
      import { defineEventHandler } from 'h3'
      export default defineEventHandler(() => 'a call without a connection')`,
  },
  packages: 'nitropack@2.13.6 h3@1.15.11',
  build: 'nitropack build',
  start: ['.output/server/index.mjs'],
}

const nitro3: Project = {
  name: 'nitro3',
  files: {
    'nitro.config.mjs': `export default { serverDir: 'server', compatibilityDate: '2026-01-01' }`,
    'public/ready': 'ready',
    'server/routes/left.ts': `
      import { defineHandler } from 'nitro/h3'
      import { rateLimitOf } from 'sluice/fetch'
      export default defineHandler((event) => ({ left: rateLimitOf(event.req)?.remaining }))`,
  },
  packages: 'nitro@3.0.260903-beta',
  build: 'nitro build',
  start: ['.output/server/index.mjs'],
}

const tanstack: Project = {
  name: 'tanstack',
  files: {
    'vite.config.js': `
      import { tanstackStart } from '@tanstack/react-start/plugin/vite'
      import react from '@vitejs/plugin-react'
      export default { plugins: [tanstackStart(), react()] }`,
    'src/router.tsx': `
      import { createRouter } from '@tanstack/react-router'
      import { routeTree } from './routeTree.gen'
      export const getRouter = () => createRouter({ routeTree })`,
    'src/routes/__root.tsx': `
      import { createRootRoute, Outlet } from '@tanstack/react-router'
      export const Route = createRootRoute({ component: () => <html><body><Outlet /></body></html> })`,
    'src/routes/left.ts': `
      import { createFileRoute } from '@tanstack/react-router'
      import { rateLimitOf } from 'sluice/fetch'
      const GET = ({ request }) => Response.json({ left: rateLimitOf(request)?.remaining })
      export const Route = createFileRoute('/left')({ server: { handlers: { GET } } })`,
    'start.js': `
      import { serve } from '@hono/node-server'
      import server from './dist/server/server.js'
      const fetch = (request) => (request.url.endsWith('/ready') ? new Response('ready') : server.fetch(request))
      serve({ fetch, port: Number(process.env.PORT), hostname: '127.0.0.1' })`,
  },
  packages:
    '@tanstack/react-start@1.169.5 @tanstack/react-router@1.170.46 react@19.3.1 react-dom@19.3.1 vite@8.4.0 @vitejs/plugin-react@6.3.0 @hono/node-server@2.1.8 hono@4.13.19',
  build: 'vite build',
  start: ['start.js'],
}

/** `all` adds Astro, Nitro and TanStack Start, which take some minutes. They call the package in the same ways as SvelteKit and a server of Node. */
const isWhole = process.env['SLUICE_FRAMEWORKS'] === 'all'

it.each(isWhole ? [sveltekit, astro, nitro, nitro3, tanstack] : [sveltekit])(
  '$name counts the requests of each client, and denies the third',
  async (project) => {
    const ask = await started(project)
    const answers = [await ask('/left'), await ask('/left'), await ask('/left')]
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 429])
    expect(await Promise.all(answers.slice(0, 2).map((each) => each.json()))).toEqual([{ left: 1 }, { left: 0 }])
    expect(Number(answers[2]!.headers.get('retry-after'))).toBeGreaterThan(0)
    // A file is sent without the limit.
    expect((await ask('/ready')).headers.get('ratelimit')).toBeNull()
  },
)

describe('Next.js', () => {
  const everywhere = `import { everywhere } from '../../lib/everywhere'`
  const next: Project = {
    name: 'next',
    page: 'docs/guides/nextjs.md',
    files: {
      'next.config.mjs': 'export default { cacheComponents: true, partialPrefetching: true }',
      'app/layout.tsx': 'export default ({ children }) => <html><body>{children}</body></html>',
      'app/page.tsx': `
        import { send } from './actions'
        export default () => <form action={async () => { 'use server'; await send() }} />`,
      'public/ready': 'ready',
      'app/pages/one/page.tsx': 'export default () => <p>one</p>',
      'app/fixed/route.ts': `
        import { everyone, perMinute } from 'sluice'
        import { rateLimit } from 'sluice/fetch'
        export const GET = rateLimit({ keyer: everyone, limits: perMinute(2) })(() => new Response('fixed'))`,
      'app/route-left/route.ts': `
        ${everywhere}
        import type { NextRequest } from 'next/server'
        export const GET = (request: NextRequest) => new Response(request.nextUrl.search + everywhere.consume('ann').remaining)`,
      'pages/api/left-of-pages.ts': `
        ${everywhere}
        export default (_request: unknown, response: { send(text: string): void }) => response.send(String(everywhere.consume('ann').remaining))`,
      'tsconfig.json': '{ "compilerOptions": { "strict": true, "noImplicitAny": false } }',
    },
    packages: 'next@16.4.6 react@19.3.1 react-dom@19.3.1 typescript@5.9.3 @types/node@20.19.43 @types/react@19',
    build: 'next build',
    start: ['node_modules/next/dist/bin/next', 'start', '-H', '127.0.0.1'],
  }

  it('calls limited handlers for each request, and its bundles count together in a store outside of modules', async () => {
    const ask = await started(next)
    const client = { headers: { 'x-real-ip': '203.0.113.7' } }
    const statuses = async (path: string): Promise<number[]> => {
      const answers = [await ask(path, client), await ask(path, client), await ask(path, client)]
      return answers.map(({ status }) => status)
    }
    expect(await statuses('/api/left')).toEqual([200, 200, 429])
    expect(await statuses('/fixed')).toEqual([200, 200, 429])
    expect((await ask('/pages/one', client)).headers.get('ratelimit')).toBe('"300-per-1m";r=299;t=1')
    const left = [await ask('/route-left'), await ask('/api/left-of-pages')]
    expect(await Promise.all(left.map((each) => each.text()))).toEqual(['1', '0'])
  })
})
