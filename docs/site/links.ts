import { posix } from 'node:path'
import type { MarkdownRenderer } from 'vitepress'

/** Files that the pages rendered so far link to, such as `LICENSE`. The built site has copies of them under the same paths. */
export const linkedFiles: Set<string> = new Set()

/** Returns the anchor of a heading, as GitHub makes it. */
export function anchorOf(heading: string): string {
  const text = heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase()
  return text.replaceAll(/[^\p{L}\p{N}\-_ ]/gu, '').replaceAll(' ', '-')
}

/**
 * Returns where a link of a page leads on the site. Pages keep their relative links. A program in examples/ has its own page.
 * @param page path from the root of the repository
 * @example siteLink('docs/guides/testing.md', '../../examples/plans.ts') // '/docs/site/examples/plans'
 */
export function siteLink(page: string, link: string): string {
  if (/^(https?:|#|\/)/.test(link)) return link
  const [file, anchor] = link.split('#') as [string, string?]
  const target = posix.join(posix.dirname(page), file)
  const example = /^examples\/([\w-]+)\.ts$/.exec(target)
  if (example !== null) return `/docs/site/examples/${example[1]}`
  if (target === 'README.md') return anchor === undefined ? '/start' : `/start#${anchor}`
  return /\.(md|png|svg)$/.test(target) ? link : `/${target}`
}

/** Returns whether a link from `siteLink` leads to a file that is no page. */
function isFile(link: string): boolean {
  return /^\/(?!docs\/site\/examples\/|start(#|$))[^#]/.test(link)
}

/** The pages that have another path on the site than in the repository. */
export const rewrites: Readonly<Record<string, string>> = { 'docs/site/home.md': 'index.md', 'README.md': 'start.md' }

/** Returns the path in the repository of a page of the site. */
function sourceOf(relativePath: string): string {
  return Object.entries(rewrites).find(([, path]) => path === relativePath)?.[0] ?? relativePath
}

/** Lets links of pages lead to where the site has their targets. */
export function followLinks(markdown: MarkdownRenderer): void {
  markdown.core.ruler.push('site-links', ({ tokens, env }) => {
    const { relativePath } = env as { readonly relativePath: string }
    const page = sourceOf(relativePath)
    const links = tokens.flatMap(({ children }) => children ?? []).filter(({ type }) => type === 'link_open')
    for (const link of links) {
      const target = siteLink(page, link.attrGet('href')!)
      link.attrSet('href', target)
      if (!isFile(target)) continue
      linkedFiles.add(target.slice(1))
      link.attrSet('target', '_self')
    }
  })
}
