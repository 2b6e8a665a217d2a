import { cpSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { MarkdownRenderer, UserConfig } from 'vitepress'
import { withTabs } from '../javascript.ts'
import { anchorOf, fillCorners, followLinks, linkedFiles, rewrites } from '../links.ts'
import { menu, sidebar } from '../navigation.ts'

const root = fileURLToPath(new URL('../../../', import.meta.url))

type Replacement = readonly [from: string, to: string]

const MAIN: readonly Replacement[] = [
  ['<template>\n  <div ', '<template>\n  <main '],
  ['</div>\n</template>', '</main>\n</template>'],
]

/**
 * What to change in the components of VitePress, by their files. The home page and the page for a wrong address have no `main` element. The title of a group
 * in the sidebar is a button, with a second button inside that does the same. The key next to "Search" is no part of its name: the style sheet writes it.
 */
const REPAIRS: Readonly<Record<string, readonly Replacement[]>> = {
  'VPHome.vue': MAIN,
  'NotFound.vue': MAIN,
  'VPSidebarItem.vue': [
    [':tabindex="item.items && 0"', ':tabindex="item.items && 0" :aria-expanded="item.items && !collapsed"'],
    ['role="button"\n        aria-label="toggle section"\n', 'aria-hidden="true"\n'],
    ['@keydown.enter="onCaretClick"\n        tabindex="0"\n', ''],
  ],
  'VPNavBarSearchButton.vue': [['">K</kbd>', '"></kbd>']],
}

/** Returns the source of a component with its changes. Throws if a change does not fit this version of VitePress. */
function repaired(code: string, id: string): string | undefined {
  const name = /theme-default\/(?:components\/)?(\w+\.vue)$/.exec(id)?.[1]
  return REPAIRS[name ?? '']?.reduce((text, [from, to]) => {
    if (!text.includes(from)) throw new Error(`${name}: expected ${from}`)
    return text.replace(from, to)
  }, code)
}

/** Colours each program once. The search renders all pages again, and pages have programs in common. */
function colourOnce({ options }: MarkdownRenderer): void {
  const { highlight } = options
  const known = new Map<string, string>()
  options.highlight = (...program) => {
    const name = JSON.stringify(program)
    const coloured = known.get(name) ?? highlight!(...program)
    known.set(name, coloured)
    return coloured
  }
}

/** The site: a home page, README.md as the first page, and all other pages under the paths that they have in the repository. */
const config: UserConfig = {
  title: 'sluice',
  description: 'A rate limiter for Node web servers',
  lang: 'en',
  srcDir: '../..',
  srcExclude: ['bench/**', 'test/**', 'coverage/**'],
  outDir: '../../dist/site',
  rewrites,
  head: [['link', { rel: 'icon', href: 'data:,' }]],
  markdown: {
    anchor: { slugify: anchorOf },
    // The other themes have colours below the contrast that WCAG asks for.
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    config: (markdown) => {
      colourOnce(markdown)
      followLinks(markdown)
      fillCorners(markdown)
    },
  },
  themeConfig: {
    nav: menu(root),
    sidebar: sidebar(root),
    outline: [2, 3],
    search: { provider: 'local' },
    notFound: {
      title: 'Page not found',
      quote: 'No page has this address. Use the search, or begin at the home page.',
      linkText: 'Home page',
      linkLabel: 'Home page',
    },
  },
  transformPageData({ relativePath, frontmatter }) {
    // The playground needs the width of the outline.
    if (relativePath === 'docs/playground.md') frontmatter['aside'] = false
  },
  vite: {
    resolve: { alias: { 'sluice/algorithms': `${root}src/algorithms.ts`, sluice: `${root}src/index.ts` } },
    plugins: [
      { name: 'repairs', enforce: 'pre', transform: repaired },
      {
        name: 'tabs',
        enforce: 'pre',
        transform: (code, id) => (id.endsWith('.md') ? withTabs(code) : undefined),
      },
    ],
  },
  buildEnd({ outDir }) {
    for (const file of linkedFiles) cpSync(`${root}${file}`, `${outDir}/${file}`)
  },
}

// VitePress reads the default export.
// oxlint-disable-next-line import/no-default-export
export default config
