import { cpSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { UserConfig } from 'vitepress'
import { anchorOf, linkedFiles, followLinks, rewrites } from '../links.ts'
import { menu, sidebar } from '../navigation.ts'

const root = fileURLToPath(new URL('../../../', import.meta.url))

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
  markdown: { anchor: { slugify: anchorOf }, config: followLinks },
  themeConfig: {
    nav: menu(root),
    sidebar: sidebar(root),
    outline: [2, 3],
    search: { provider: 'local' },
  },
  transformPageData({ relativePath, frontmatter }) {
    // The playground needs the width of the outline.
    if (relativePath === 'docs/playground.md') frontmatter['aside'] = false
  },
  vite: { resolve: { alias: { sluice: `${root}src/index.ts` } } },
  buildEnd({ outDir }) {
    for (const file of linkedFiles) cpSync(`${root}${file}`, `${outDir}/${file}`)
  },
}

// VitePress reads the default export.
// oxlint-disable-next-line import/no-default-export
export default config
