import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { BrowserContextOptions, Locator, Page } from 'playwright-core'
import { expect, it } from 'vitest'
import { type LimitForm, limitOf } from '../../site/playground/forms.ts'
import { toHash } from '../../site/playground/share.ts'
import { START } from '../../site/playground/simulate.ts'
import { presets, type Traffic } from '../../site/playground/traffic.ts'
import { createLimiter, everyone, memoryStore } from '../../src/index.ts'
import { virtualClock } from '../../src/testing.ts'
import { LOW_CONTRAST } from '../support/contrast.ts'
import { root } from '../support/programs.ts'

type Open = (path: string, options: BrowserContextOptions, use: (page: Page) => Promise<void>) => Promise<void>

const PAGE = '/docs/playground.html'

/** Limits that use every algorithm, and options of most kinds. */
const scenarios: readonly (readonly LimitForm[])[] = [
  [{ algorithm: 'gcra', values: { quota: '10', window: '10s', burst: '4' } }],
  [{ algorithm: 'tokenBucket', values: { quota: '5', window: '5s', capacity: '9', refill: 'interval', initial: '2' } }],
  [{ algorithm: 'leakyBucket', values: { quota: '10', window: '10s', capacity: '5' } }],
  [{ algorithm: 'spacing', values: { gap: '700ms', strict: 'true' } }],
  [{ algorithm: 'fixedWindow', values: { quota: '12', window: '10s', anchor: 'clock', offset: '3s' } }],
  [{ algorithm: 'fixedWindow', values: { quota: '30', window: '1d', anchor: 'calendar', timeZone: 'Asia/Kolkata' } }],
  [
    {
      algorithm: 'slidingWindowLog',
      values: { quota: '10', window: '10s', block: '1s', 'block.after': '2', 'block.factor': '3' },
    },
  ],
  [{ algorithm: 'slidingWindowCounter', values: { quota: '10', window: '10s' } }],
  [{ algorithm: 'slidingWindowBuckets', values: { quota: '10', window: '10s', buckets: '5' } }],
  [{ algorithm: 'quotaLinear', values: { quota: '10', window: '10s' } }],
  [{ algorithm: 'exponential', values: { quota: '10', window: '10s', strict: 'true' } }],
  [
    { algorithm: 'gcra', values: { quota: '3', window: '1s' } },
    { algorithm: 'slidingWindowLog', values: { quota: '20', window: '30s' } },
    { algorithm: 'spacing', values: { gap: '300ms', shadow: 'true' } },
  ],
]

/** Returns the cells of the table of decisions, as the engine decides in Node. */
function expectedRows(forms: readonly LimitForm[], { times }: Traffic): string[][] {
  const clock = virtualClock(START)
  const limiter = createLimiter({ keyer: everyone, limits: forms.map(limitOf), store: memoryStore({ clock }) })
  return times.map((time, i) => {
    clock.set(START + time)
    const { allowed, remaining } = limiter.consume({})
    return [`${i + 1}`, `${time / 1000}s`, allowed ? 'allowed' : 'denied', `${remaining}`]
  })
}

async function rowsOf(page: Page): Promise<string[][]> {
  const texts = await page
    .locator('.playground tbody tr')
    .evaluateAll((rows) =>
      rows.map((row) =>
        Array.from((row as unknown as { cells: Iterable<{ textContent: string }> }).cells, (cell) => cell.textContent),
      ),
    )
  return texts.map((cells) => cells.slice(0, 4))
}

const counts = (page: Page): Promise<string> => page.locator('.playground .own').innerText()
const requests = async (page: Page): Promise<number> =>
  Number.parseInt(await page.locator('.playground .count').innerText(), 10)
const button = (page: Page, name: string): Locator => page.getByRole('button', { name, exact: true })
const field = (page: Page, name: string): Locator =>
  page.getByRole('group', { name: 'Limit 1' }).getByLabel(name, { exact: true })

/** Resolves once the playground reacts to events. */
const isReady = (page: Page): Promise<void> => page.locator('.playground[aria-busy=false]').waitFor()

/** Takes the picture: on a large screen the first decisions, on a phone a screen of limits and traffic. */
async function record(page: Page, file: string): Promise<void> {
  if ((page.viewportSize()?.width ?? 0) < 500) {
    await page.evaluate(
      'document.documentElement.style.scrollPaddingTop = "64px"; document.getElementById("limits").scrollIntoView()',
    )
    await page.screenshot({ path: file, scale: 'css' })
    return
  }
  const from = (await page.locator('#decisions').boundingBox())!
  const to = (await page.locator('.result').nth(5).boundingBox())!
  const clip = { x: from.x - 24, y: from.y, width: from.width + 48, height: to.y + to.height - from.y + 16 }
  await page.screenshot({ path: file, fullPage: true, clip })
}

/** The tests of the playground, on a site that is built and served. */
export function playgroundTests(openPage: Open, phone: BrowserContextOptions): void {
  const open: Open = (path, options, use) =>
    openPage(path, options, async (page) => {
      await isReady(page)
      await use(page)
    })

  it('decides as the engine does in Node, under every algorithm', () =>
    open(PAGE, {}, async (page) => {
      const traffic = presets['Bursts']!({ quota: 10, window: 10_000 })
      await page.getByText('Every decision of your limits').click()
      for (const forms of scenarios) {
        await page.evaluate(`location.hash = ${JSON.stringify(toHash({ forms, traffic }))}`)
        await expect.poll(() => rowsOf(page), { message: JSON.stringify(forms) }).toEqual(expectedRows(forms, traffic))
      }
    }))

  it('shows at once what a changed limit decides, and what is wrong with it', () =>
    open(PAGE, {}, async (page) => {
      await button(page, 'Clear').click()
      expect(await counts(page)).toMatch(/^Your limits: 0 allowed, 0 denied/)
      await button(page, 'A flood').click()
      await field(page, 'algorithm').selectOption('slidingWindowLog')
      expect(await counts(page)).toBe('Your limits: 60 allowed, 540 denied, at most 10 in any 10s')
      await field(page, 'quota').fill('5')
      expect(await counts(page)).toBe('Your limits: 30 allowed, 570 denied, at most 5 in any 10s')
      await field(page, 'quota').fill('five')
      expect(await page.getByRole('alert').innerText()).toMatch(/^quota: expected a whole number/)
      expect(await button(page, 'Copy the code').isDisabled()).toBe(true)
    }))

  it('compares all algorithms, and each limit by itself', () =>
    open(PAGE, {}, async (page) => {
      const lines = page.locator('.result')
      expect(await lines.count()).toBe(10)
      await button(page, 'Add a limit').click()
      expect(await lines.count()).toBe(12)
      await page.getByRole('checkbox', { name: /^Compare with all algorithms/ }).uncheck()
      expect(await lines.count()).toBe(3)
      await button(page, 'Remove limit 2').click()
      expect(await lines.count()).toBe(1)
    }))

  it('reads pasted times, or says what it expected', () =>
    open(PAGE, {}, async (page) => {
      await page.getByText('Paste a list of times', { exact: true }).click()
      await page.getByLabel('times of requests').fill('0 1 soon')
      await button(page, 'Use these times').click()
      expect(await page.getByRole('alert').innerText()).toMatch(/^Time 3 is "soon"\. Expected seconds/)
      await page.getByLabel('times of requests').fill('0 0.5 2m')
      await button(page, 'Use these times').click()
      expect(await page.getByRole('alert').count()).toBe(0)
      expect(await counts(page)).toMatch(/^Your limits: 3 allowed, 0 denied/)
    }))

  it('is drawn with a mouse', () =>
    open(PAGE, {}, async (page) => {
      await button(page, 'Clear').click()
      await page.locator('.strip').scrollIntoViewIfNeeded()
      const { x, y, width, height } = (await page.locator('.strip').boundingBox())!
      await page.mouse.move(x + width / 4, y + height / 2)
      await page.mouse.down()
      await page.mouse.move(x + width / 2, y + height / 2)
      await page.mouse.up()
      await page.mouse.move(x + width, y + height / 4)
      // From column 15 to column 30, ten requests each.
      expect(await requests(page)).toBe(160)
    }))

  it('is drawn with the keyboard', () =>
    open(PAGE, {}, async (page) => {
      await button(page, 'Clear').focus()
      await page.keyboard.press('Enter')
      await page.keyboard.press('Tab')
      for (const key of ['End', 'ArrowLeft', 'PageUp', 'ArrowUp', 'ArrowUp', 'ArrowDown'])
        await page.keyboard.press(key)
      const slider = page.getByRole('slider', { name: 'Requests from 58s to 59s' })
      expect(await slider.getAttribute('aria-valuetext')).toBe('6 requests')
      expect(await slider.evaluate('document.activeElement.getAttribute("aria-label")')).toBe(
        'Requests from 58s to 59s',
      )
      expect(await requests(page)).toBe(6)
    }))

  it('is drawn with a finger on a phone, and is no wider than it', () =>
    open(PAGE, phone, async (page) => {
      await button(page, 'Clear').tap()
      await page.locator('.strip').scrollIntoViewIfNeeded()
      const { x, y, width, height } = (await page.locator('.strip').boundingBox())!
      await page.touchscreen.tap(x + width / 2, y + height / 2)
      expect(await requests(page)).toBe(10)
      await page.getByText('Every decision of your limits').tap()
      await page.getByText('Paste a list of times', { exact: true }).tap()
      for (let i = 0; i < 4; i++) await button(page, 'Add a limit').tap()
      expect(await button(page, 'Add a limit').isDisabled()).toBe(true)
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(360)
    }))

  it('copies the code, and a link that opens the same', () =>
    open(PAGE, { permissions: ['clipboard-read', 'clipboard-write'] }, async (page) => {
      const copied = (): Promise<string> => page.evaluate('navigator.clipboard.readText()')
      await button(page, 'Copy the code').click()
      await expect.poll(copied).toBe(await page.locator('.program').textContent())
      expect(await copied()).toContain(
        "rateLimit({\n  keyer: byIP,\n  limits: [\n    gcra({ quota: 10, window: '10s' }),\n  ],\n})",
      )
      await field(page, 'quota').fill('7')
      await button(page, 'Bursts').click()
      const before = await counts(page)
      await button(page, 'Copy a link').click()
      await expect.poll(copied).toMatch(/#limits=/)
      const link = await copied()
      await page.goto('about:blank')
      await page.goto(link)
      await isReady(page)
      await expect.poll(() => counts(page)).toBe(before)
      expect(await field(page, 'quota').inputValue()).toBe('7')
    }))

  it('refuses a link that it did not write', () =>
    open(`${PAGE}#limits=[1]`, {}, async (page) => {
      await page.getByText('The link is not valid.').waitFor()
      expect(await counts(page)).toMatch(/^Your limits: \d/)
    }))

  it('every control has a name', () =>
    open(PAGE, {}, async (page) => {
      await page.getByText('Paste a list of times', { exact: true }).click()
      const tree = await page.locator('.playground').ariaSnapshot()
      expect(tree.match(/- (button|checkbox|combobox|img|region|slider|textbox) "/g)!.length).toBeGreaterThan(80)
      expect(tree.match(/- (button|checkbox|combobox|img|region|slider|textbox)(?! ").*/g)).toBeNull()
    }))

  it.each(['light', 'dark'] as const)('has enough contrast when it is %s', (colorScheme) =>
    open(PAGE, { colorScheme }, async (page) => {
      await field(page, 'window').fill('')
      await page.getByRole('alert').waitFor()
      await expect.poll(() => page.evaluate(LOW_CONTRAST)).toEqual([])
      await field(page, 'window').fill('10s')
      await page.getByText('Every decision of your limits').click()
      await expect.poll(() => page.evaluate(LOW_CONTRAST)).toEqual([])
    }),
  )

  it.each([
    ['playground', { viewport: { width: 1100, height: 900 }, colorScheme: 'light' }],
    ['playground-phone', { ...phone, colorScheme: 'dark' }],
  ] as const)('the README shows a picture of it: %s', async (name, options) => {
    const file = join(root, 'docs/img', `${name}.png`)
    if (process.env['SLUICE_RECORD'] === 'screenshots') await open(PAGE, options, (page) => record(page, file))
    expect(await readFile(join(root, 'README.md'), 'utf8')).toContain(`(docs/img/${name}.png)`)
    const { size } = await stat(file)
    expect(size).toBeGreaterThan(5000)
    expect(size).toBeLessThan(100_000)
  })
}
