import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { expect } from 'vitest'
import { programPath } from './debian.ts'

const FIND = 'command -v chromium || command -v chromium-browser || command -v google-chrome'

/** Starts Chromium: from the PATH, else from Debian's package. Else throws with what to install. */
export function startChromium(): Promise<Browser> {
  const missing = 'This test needs a real browser: put chromium on the PATH.'
  return chromium.launch({ executablePath: programPath(FIND, 'chromium', missing) })
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
