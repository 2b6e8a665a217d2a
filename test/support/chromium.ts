import axe, { type AxeResults } from 'axe-core'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { expect } from 'vitest'
import { programPath } from './debian.ts'

const FIND = 'command -v chromium || command -v chromium-browser || command -v google-chrome'

/** Starts Chromium: from the PATH, else from Debian's package. Else throws with what to install. */
export function startChromium(): Promise<Browser> {
  const missing = 'This test needs a real browser: put chromium on the PATH.'
  return chromium.launch({ executablePath: programPath(FIND, 'chromium', missing) })
}

/** How pages are checked: on a desktop and on a phone, light and then dark. */
export const DEVICES: readonly (readonly [name: string, options: BrowserContextOptions])[] = (
  ['light', 'dark'] as const
).flatMap((colorScheme) => [
  [`desktop, ${colorScheme}`, { colorScheme, viewport: { width: 1280, height: 800 } }],
  [`phone, ${colorScheme}`, { colorScheme, viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true }],
])

/**
 * Returns the rules of axe that a page breaks, with the elements, and how much wider than the window it is.
 * @param exclude selectors of elements that are not checked
 */
export async function faultsOf(page: Page, exclude: readonly string[] = []): Promise<string[]> {
  // A policy of the page may forbid a script element, and permits this.
  await page.evaluate(axe.source)
  const context = JSON.stringify({ exclude })
  const { violations } = await page.evaluate<AxeResults>(`axe.run(${context}, { resultTypes: ['violations'] })`)
  const broken = violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`))
  const excess = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
  return excess > 0 ? [...broken, `${excess} too wide`] : broken
}

/** Opens a URL, uses the page, and fails if the page requested anything from another server or had an error. */
export async function visit(
  browser: Browser,
  url: string,
  options: BrowserContextOptions,
  use: (page: Page) => Promise<void>,
): Promise<void> {
  const context = await browser.newContext(options)
  const faults: string[] = []
  const { origin } = new URL(url)
  try {
    await context.route(
      (each) => each.origin !== origin,
      (route) => {
        faults.push(`requests ${route.request().url()}`)
        return route.abort()
      },
    )
    const page = await context.newPage()
    page.on('pageerror', (error) => faults.push(error.message))
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) faults.push(message.text())
    })
    await page.goto(url)
    await use(page)
    expect(faults).toEqual([])
  } finally {
    await context.close()
  }
}
