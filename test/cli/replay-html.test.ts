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

  it('has a legend, and the unit and the ends of each axis', async () => {
    await visit(browser, url, {}, async (page) => {
      const ends = ['2026-11-22 11:00:00', '2026-11-22 11:08:20']
      const plots = page.locator('figure', { has: page.locator('.frame') })
      expect(await plots.count()).toBe(3)
      for (const plot of await plots.all()) {
        expect(await plot.locator('.legend').innerText()).toMatch(/admitted\s+denied/)
        expect(await plot.locator('.unit').allInnerTexts()).toEqual(['requests per 4 s', 'time (UTC)'])
        expect(await plot.locator('.scale span').allInnerTexts()).toEqual(['4', '0'])
        expect(await plot.locator('.times span').allInnerTexts()).toEqual(ends)
      }
      const comparison = page.locator('figure', { has: page.locator('li') })
      expect(await comparison.locator('.legend').innerText()).toMatch(/too lenient: .*\s+too strict: /)
      const differences = '10 too lenient, 3 too strict'
      expect(await comparison.locator('li .unit').allInnerTexts()).toEqual([differences, differences])
      expect(await page.locator('h2').first().innerText()).toBe('Decisions that differ from an exact log of the window')
    })
  })

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
