import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { DefaultTheme } from 'vitepress'

interface Group {
  readonly title: string
  readonly folder: string
  /** Names of pages in their order. Other pages of the folder follow. */
  readonly order?: readonly string[]
}

const groups: readonly Group[] = [
  {
    title: 'Guides',
    folder: 'docs/guides',
    order: [
      'express',
      'fastify',
      'koa',
      'hono',
      'fetch',
      'node',
      'nestjs',
      'concurrent-requests',
      'recipes',
      'proxies',
      'redis',
      'databases',
      'rules',
      'language-models',
      'testing',
      'monitoring',
      'choosing-a-limit',
    ],
  },
  {
    title: 'Reference',
    folder: 'docs/reference',
    order: ['options', 'limiter', 'headers', 'errors-and-warnings', 'cli'],
  },
  { title: 'Concepts', folder: 'docs/concepts', order: ['algorithms'] },
  { title: 'Extending', folder: 'docs/extending', order: ['algorithm', 'store', 'dynamodb-and-mongodb', 'adapter'] },
  { title: 'Internals', folder: 'docs/internals', order: ['redis-layout', 'performance', 'accuracy', 'leases'] },
  {
    title: 'Migrating',
    folder: 'docs/migrating',
    order: ['express-rate-limit', 'fastify-rate-limit', 'koa-ratelimit', 'rate-limiter-flexible'],
  },
]

const first = ['README', 'docs/playground']
const last = ['docs/why-sluice', 'ARCHITECTURE', 'CONTRIBUTING', 'SECURITY', 'CHANGELOG']

/** Returns the sidebar: every page once, with its first heading as the text. */
export function sidebar(root: string): DefaultTheme.SidebarItem[] {
  const item = (page: string): DefaultTheme.SidebarItem => ({
    text: page === 'README' ? 'Start' : headingOf(join(root, `${page}.md`)),
    link: page === 'README' ? '/' : `/${page}`,
  })
  return [
    { items: first.map(item) },
    ...groups.map((group) => ({
      text: group.title,
      collapsed: false,
      items: pagesOf(root, group).map(item),
    })),
    { text: 'Project', items: last.map(item) },
  ]
}

/** Returns the pages of a folder, without `.md`. */
function pagesOf(root: string, { folder, order = [] }: Group): string[] {
  const present = readdirSync(join(root, folder)).filter((name) => name.endsWith('.md'))
  const names = present.map((name) => name.slice(0, -'.md'.length)).toSorted()
  const known = order.filter((name) => existsSync(join(root, folder, `${name}.md`)))
  return [...new Set([...known, ...names])].map((name) => `${folder}/${name}`)
}

function headingOf(file: string): string {
  return /^# (.*)$/m.exec(readFileSync(file, 'utf8'))![1]!
}
