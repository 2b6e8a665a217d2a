import axe, { type AxeResults } from 'axe-core'
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { expect } from 'vitest'
import { programPath } from './debian.ts'

const FIND = 'command -v chromium || command -v chromium-browser || command -v google-chrome'

/** Starts Chromium: from the PATH, else from Debian's package. Else throws with what to install. */
export function startChromium(): Promise<Browser> {
  const missing = 'This test needs a real browser: put chromium on the PATH.'
  // No page reaches another server. Names of `.example` are this machine, without the rights of localhost.
  const args = ['--host-resolver-rules=MAP *.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1']
  return chromium.launch({ executablePath: programPath(FIND, 'chromium', missing), args })
}

/** How pages are checked: on a desktop and on a phone, light and then dark. */
export const DEVICES: readonly (readonly [name: string, options: BrowserContextOptions])[] = (
  ['light', 'dark'] as const
).flatMap((colorScheme) => [
  [`desktop, ${colorScheme}`, { colorScheme, viewport: { width: 1280, height: 800 } }],
  [`phone, ${colorScheme}`, { colorScheme, viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true }],
])

/** What axe checks of a page. */
export interface Checked {
  readonly exclude?: readonly string[]
  /** For a page that was checked in other colours. */
  readonly onlyColours?: boolean
}

/** Returns the rules of axe that a page breaks, with the elements, and how much wider than the window it is. */
export async function faultsOf(page: Page, { exclude = [], onlyColours = false }: Checked = {}): Promise<string[]> {
  // A policy of the page may forbid a script element, and permits this.
  await page.evaluate(axe.source)
  const options = {
    resultTypes: ['violations'],
    ...(onlyColours && { runOnly: ['color-contrast', 'link-in-text-block'] }),
  }
  const { violations } = await page.evaluate<AxeResults>(
    `axe.run(${JSON.stringify({ exclude })}, ${JSON.stringify(options)})`,
  )
  const broken = violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`))
  const excess = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
  return excess > 0 ? [...broken, `${excess} too wide`] : broken
}

/** A page, and what it did wrong: what it requested from servers other than those of `origin`, and its errors. */
export interface Watched {
  readonly page: Page
  readonly faults: string[]
}

/** Opens an empty page for the pages of an origin. */
export async function watchedPage(context: BrowserContext, origin: string): Promise<Watched> {
  const faults: string[] = []
  const page = await context.newPage()
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== origin) faults.push(`requests ${request.url()}`)
  })
  page.on('pageerror', (error) => faults.push(error.message))
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) faults.push(message.text())
  })
  return { page, faults }
}

/**
 * Opens a URL, uses the page, and fails if the page requested anything from another server or had an error.
 * @param prepare changes the context before the page opens
 */
export async function visit(
  browser: Browser,
  url: string,
  options: BrowserContextOptions,
  use: (page: Page) => Promise<void>,
  prepare?: (context: BrowserContext) => Promise<unknown>,
): Promise<void> {
  const context = await browser.newContext(options)
  try {
    await prepare?.(context)
    const { page, faults } = await watchedPage(context, new URL(url).origin)
    await page.goto(url)
    await use(page)
    expect(faults).toEqual([])
  } finally {
    await context.close()
  }
}
