import { execFileSync } from 'node:child_process'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { expect } from 'vitest'

const FIND = 'command -v chromium || command -v chromium-browser || command -v google-chrome'

/** Starts Chromium: from the PATH, else from Debian's package. Else throws with what to install. */
export function startChromium(): Promise<Browser> {
  return chromium.launch({ executablePath: found() ?? installed() })
}

function found(): string | undefined {
  try {
    return execFileSync('sh', ['-c', FIND], { encoding: 'utf8' }).trim()
  } catch {
    return undefined
  }
}

function installed(): string {
  try {
    execFileSync('apt-get', ['update'], { stdio: 'ignore' })
    execFileSync('apt-get', ['install', '-y', '--no-install-recommends', 'chromium'], { stdio: 'ignore' })
  } catch (cause) {
    throw new Error('This test needs a real browser: put chromium on the PATH.', { cause })
  }
  return found()!
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
