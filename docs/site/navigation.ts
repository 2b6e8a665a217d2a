import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { DefaultTheme } from 'vitepress'

interface Group {
  readonly title: string
  readonly folder: string
  /** Names of pages in their order. Pages that do not exist are left out. */
  readonly order: readonly string[]
  /** True if the pages of the folder that no group names follow. */
  readonly hasRest?: true
}

const frameworks: Group = {
  title: 'Frameworks',
  folder: 'docs/guides',
  order: ['express', 'fastify', 'koa', 'hono', 'nestjs', 'nextjs', 'web-frameworks', 'fetch', 'workers', 'node'],
}
const stores: Group = {
  title: 'Stores',
  folder: 'docs/guides',
  order: ['databases', 'redis', 'redis-outages', 'redis-cluster', 'leases'],
}

const groups: readonly Group[] = [
  frameworks,
  { title: 'Algorithms', folder: 'docs/concepts', order: ['choosing-an-algorithm', 'algorithms'], hasRest: true },
  stores,
  {
    title: 'Guides',
    folder: 'docs/guides',
    order: [
      'choosing-a-limit',
      'proxies',
      'recipes',
      'language-models',
      'concurrent-requests',
      'rules',
      'service',
      'nginx',
      'envoy',
      'go-and-python',
      'testing',
    ],
    hasRest: true,
  },
  { title: 'Operation', folder: 'docs/guides', order: ['on-call', 'monitoring'] },
  {
    title: 'Reference',
    folder: 'docs/reference',
    order: ['options', 'limiter', 'headers', 'errors-and-warnings', 'cli', 'api'],
    hasRest: true,
  },
  {
    title: 'Extending',
    folder: 'docs/extending',
    order: ['algorithm', 'store', 'dynamodb-and-mongodb', 'etcd-and-deno-kv', 'adapter'],
    hasRest: true,
  },
  {
    title: 'Internals',
    folder: 'docs/internals',
    order: ['redis-layout', 'performance', 'accuracy', 'leases'],
    hasRest: true,
  },
  {
    title: 'Migrating',
    folder: 'docs/migrating',
    order: ['express-rate-limit', 'fastify-rate-limit', 'koa-ratelimit', 'rate-limiter-flexible'],
    hasRest: true,
  },
]

const first = ['README', 'docs/playground']
const last = ['docs/why-sluice', 'docs/comparison', 'ARCHITECTURE', 'CONTRIBUTING', 'SECURITY', 'CHANGELOG']

/** Returns the sidebar: every page once, with its first heading as the text. */
export function sidebar(root: string): DefaultTheme.SidebarItem[] {
  const item = (page: string): DefaultTheme.SidebarItem => ({
    text: page === 'README' ? 'Start' : headingOf(join(root, `${page}.md`)),
    link: page === 'README' ? '/start' : `/${page}`,
  })
  return [
    { items: first.map(item) },
    ...groups.map((group) => ({
      text: group.title,
      collapsed: false,
      items: pagesOf(root, group).map(item),
    })),
    { text: 'Project', items: last.filter((page) => existsSync(join(root, `${page}.md`))).map(item) },
  ]
}

/** Returns the menu at the top of every page. */
export function menu(root: string): DefaultTheme.NavItem[] {
  const list = (group: Group): DefaultTheme.NavItemWithChildren => ({
    text: group.title,
    items: pagesOf(root, group).map((page) => ({ text: headingOf(join(root, `${page}.md`)), link: `/${page}` })),
  })
  return [
    { text: 'Start', link: '/start' },
    list(frameworks),
    list(stores),
    { text: 'Language models', link: '/docs/guides/language-models' },
    { text: 'On call', link: '/docs/guides/on-call' },
    { text: 'Options', link: '/docs/reference/options' },
    { text: 'Playground', link: '/docs/playground' },
  ]
}

/** Returns the pages of a group, without `.md`. */
function pagesOf(root: string, { folder, order, hasRest }: Group): string[] {
  const known = order.filter((name) => existsSync(join(root, folder, `${name}.md`)))
  return [...known, ...(hasRest === true ? unnamedIn(root, folder) : [])].map((name) => `${folder}/${name}`)
}

/** Returns the names of the pages of a folder that no group names. */
function unnamedIn(root: string, folder: string): string[] {
  const named = new Set(groups.filter((group) => group.folder === folder).flatMap(({ order }) => order))
  const present = readdirSync(join(root, folder)).filter((name) => name.endsWith('.md'))
  const names = present.map((name) => name.slice(0, -'.md'.length)).toSorted()
  return names.filter((name) => !named.has(name))
}

function headingOf(file: string): string {
  return /^# (.*)$/m.exec(readFileSync(file, 'utf8'))![1]!
}
