import { afterAll, describe, expect, it } from 'vitest'
import { htmlOf } from '../../src/cli/replay/html.ts'
import { DEVICES, faultsOf, startChromium, visit } from '../support/chromium.ts'
import { serve } from '../support/http.ts'
import { HOSTILE, report } from '../support/replay-report.ts'

const browser = await startChromium()
const { url, close } = await serve((request, response) => {
  response.setHeader('content-type', 'text/html').end(request.url === '/' ? htmlOf(report) : '')
})
afterAll(async () => {
  await browser.close()
  await close()
})

describe('the page of sluice replay', { timeout: 60_000 }, () => {
  it('shows plots and tables with its own style, and loads nothing', async () => {
    await visit(browser, url, {}, async (page) => {
      expect(await page.title()).toBe('sluice replay')
      expect(await page.locator('svg[role=img]').count()).toBe(5)
      const shapes = await page.locator('svg[role=img] rect.striped').all()
      const boxes = await Promise.all(shapes.map((shape) => shape.boundingBox()))
      expect(boxes.filter((box) => box !== null && box.height > 1 && box.width > 0.5).length).toBeGreaterThan(100)
      expect(await page.locator('table').count()).toBe(4)
      expect(await page.locator('pre').textContent()).toContain('500 requests of 501 lines')
    })
  })

  it.each(DEVICES)('passes axe, and is not too wide: %s', (_name, options) =>
    visit(browser, url, options, async (page) => expect(await faultsOf(page)).toEqual([])),
  )

  it('shows hostile keys as text, and has no script', async () => {
    await visit(browser, url, {}, async (page) => {
      expect(await page.locator('script, img').count()).toBe(0)
      expect(await page.title()).toBe('sluice replay')
      const shown = HOSTILE.replace('\u202e', '\\u202e')
      expect(await page.getByRole('cell', { name: shown, exact: true }).count()).toBeGreaterThan(0)
    })
  })

  it.each([360, 390])('fits a phone of %i pixels, and follows a dark theme', async (width) => {
    const phone = { viewport: { width, height: 800 }, colorScheme: 'dark', isMobile: true } as const
    const countOf = (condition: string): string =>
      `[...document.querySelectorAll('body *')].filter((each) => ${condition}).length`
    await visit(browser, url, phone, async (page) => {
      const wide = "each.getBoundingClientRect().right > innerWidth + 0.5 && !each.closest('thead')"
      expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0)
      expect(await page.evaluate('innerWidth')).toBe(width)
      expect(await page.evaluate(countOf(wide))).toBe(0)
      expect(await page.evaluate(countOf('parseFloat(getComputedStyle(each).fontSize) < 12'))).toBe(0)
      expect(await page.evaluate('getComputedStyle(document.body).color')).toBe('rgb(255, 255, 255)')
      const label = "getComputedStyle(document.querySelector('td.number'), '::before').content"
      expect(await page.evaluate(label)).toBe('"too strict"')
    })
  })
})
