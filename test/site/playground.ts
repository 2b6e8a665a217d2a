import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { BrowserContextOptions, Locator, Page } from 'playwright-core'
import { expect, it } from 'vitest'
import { type LimitForm, limitOf } from '../../docs/site/playground/forms.ts'
import { toHash } from '../../docs/site/playground/share.ts'
import { START } from '../../docs/site/playground/simulate.ts'
import { presets, type Traffic } from '../../docs/site/playground/traffic.ts'
import { createLimiter, everyone, memoryStore } from '../../src/index.ts'
import { virtualClock } from '../../src/testing.ts'
import { root } from '../support/programs.ts'

type Open = (path: string, options: BrowserContextOptions, use: (page: Page) => Promise<void>) => Promise<void>

const PAGE = '/docs/playground.html'

/** Limits with options of most kinds. test/site/scenario.test.ts has every algorithm. */
const scenarios: readonly (readonly LimitForm[])[] = [
  [{ algorithm: 'fixedWindow', values: { quota: '30', window: '1d', anchor: 'calendar', timeZone: 'Asia/Kolkata' } }],
  [
    {
      algorithm: 'slidingWindowLog',
      values: { quota: '10', window: '10s', block: '1s', 'block.after': '2', 'block.factor': '3' },
    },
  ],
  [
    { algorithm: 'tokenBucket', values: { quota: '5', window: '5s', capacity: '9', refill: 'interval', initial: '2' } },
    { algorithm: 'exponential', values: { quota: '20', window: '30s' } },
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
export function playgroundTests(openPage: Open, desktop: BrowserContextOptions, phone: BrowserContextOptions): void {
  const open: Open = (path, options, use) =>
    openPage(path, options, async (page) => {
      await isReady(page)
      await use(page)
    })

  it('decides as the engine does in Node', () =>
    open(PAGE, desktop, async (page) => {
      const traffic = presets['Bursts']!({ quota: 10, window: 10_000 })
      await page.getByText('Every decision of your limits').click()
      for (const forms of scenarios) {
        await page.evaluate(`location.hash = ${JSON.stringify(toHash({ forms, traffic }))}`)
        await expect.poll(() => rowsOf(page), { message: JSON.stringify(forms) }).toEqual(expectedRows(forms, traffic))
      }
    }))

  it('follows each control', () =>
    open(PAGE, desktop, async (page) => {
      const lines = page.locator('.result')
      const alerts = page.getByRole('alert')
      expect(await lines.count()).toBe(10)
      await button(page, 'A flood').click()
      await field(page, 'algorithm').selectOption('slidingWindowLog')
      expect(await counts(page)).toBe('Your limits: 60 allowed, 540 denied, at most 10 in any 10s')
      await button(page, 'Add a limit').click()
      await page.getByRole('checkbox', { name: /^Compare with all algorithms/ }).uncheck()
      expect(await lines.count()).toBe(3)
      await button(page, 'Remove limit 2').click()
      expect(await lines.count()).toBe(1)
      await page.getByText('Paste a list of times', { exact: true }).click()
      await page.getByLabel('times of requests').fill('0 1 soon')
      await button(page, 'Use these times').click()
      expect(await alerts.innerText()).toMatch(/^Time 3 is "soon"\. Expected seconds/)
      await page.getByLabel('times of requests').fill('0 0.5 2m')
      await button(page, 'Use these times').click()
      expect(await counts(page)).toMatch(/^Your limits: 3 allowed, 0 denied/)
      const span = page.getByLabel('length of the time line')
      await span.fill('367d')
      await span.press('Enter')
      expect(await alerts.innerText()).toBe(
        `length of the time line: expected a duration from '1s' to '366d', got "367d"`,
      )
      await button(page, 'Bursts').click()
      expect([await alerts.count(), await span.inputValue()]).toEqual([0, '1m'])
    }))

  it('says next to the field what is wrong, and keeps the last good plot', () =>
    open(PAGE, desktop, async (page) => {
      const plot = (): Promise<(string | null)[]> =>
        page
          .locator('.result svg')
          .evaluateAll((all) => all.map((each) => (each as unknown as { innerHTML: string }).innerHTML))
      const before = await plot()
      await field(page, 'quota').fill('abc')
      const message = page.getByRole('alert')
      expect(await message.innerText()).toMatch(/^quota: expected a whole number.*, got "abc"$/)
      expect(await field(page, 'quota').getAttribute('aria-invalid')).toBe('true')
      expect(await field(page, 'quota').getAttribute('aria-describedby')).toBe(await message.getAttribute('id'))
      expect(await field(page, 'window').getAttribute('aria-invalid')).toBeNull()
      const [input, text] = await Promise.all([field(page, 'quota').boundingBox(), message.boundingBox()])
      expect(text!.y - input!.y - input!.height).toBeLessThan(12)
      expect(Math.abs(text!.x - input!.x)).toBeLessThan(12)
      expect(await plot()).toEqual(before)
      await page.getByText('These are the decisions of the last limits without a mistake.').waitFor()
      await field(page, 'quota').fill('20')
      expect(await page.getByRole('alert').count()).toBe(0)
      expect(await plot()).not.toEqual(before)
      // Limits that are wrong only together.
      await button(page, 'Add a limit').click()
      const good = await plot()
      await page.getByRole('group', { name: 'Limit 2' }).getByLabel('quota', { exact: true }).fill('20')
      await page.getByRole('group', { name: 'Limit 2' }).getByLabel('window', { exact: true }).fill('10s')
      expect(await page.getByRole('alert').innerText()).toContain('20-per-10s')
      expect(await plot()).toHaveLength(good.length)
    }))

  it('is drawn with a mouse', () =>
    open(PAGE, desktop, async (page) => {
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
    open(PAGE, desktop, async (page) => {
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
    open(PAGE, desktop, async (page) => {
      await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
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
    open(`${PAGE}#limits=[1]`, desktop, async (page) => {
      await page.getByText('The link is not valid.').waitFor()
      expect(await counts(page)).toMatch(/^Your limits: \d/)
    }))

  it.each([
    ['playground', 'docs/guides/choosing-a-limit.md', { viewport: { width: 1100, height: 900 }, colorScheme: 'light' }],
    ['playground-phone', 'docs/playground.md', { ...phone, colorScheme: 'dark' }],
  ] as const)('the picture %s is on %s', async (name, shownOn, options) => {
    const file = join(root, 'docs/img', `${name}.png`)
    if (process.env['SLUICE_RECORD'] === 'pictures') await open(PAGE, options, (page) => record(page, file))
    expect(await readFile(join(root, shownOn), 'utf8')).toContain(`img/${name}.png)`)
    const { size } = await stat(file)
    expect(size).toBeGreaterThan(5000)
    expect(size).toBeLessThan(100_000)
  })
}
