// Builds the site and checks it: first its files, then its pages in Chromium.
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { siteLink } from '../../docs/site/links.ts'
import { sidebar } from '../../docs/site/navigation.ts'
import { DEVICES, faultsOf, startChromium, type Watched, watchedPage } from '../support/chromium.ts'
import { allPages, anchorsOf, readPage } from '../support/pages.ts'
import { root } from '../support/programs.ts'
import { buildSite, type Site } from '../support/site.ts'
import { playgroundTests } from './playground.ts'

vi.setConfig({ testTimeout: 60_000, hookTimeout: 240_000 })

const PHONE: BrowserContextOptions = { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true }

const PLAYGROUND = '/docs/playground.html'

const [[, DESKTOP]] = DEVICES as readonly [(typeof DEVICES)[0]]

/** A page of every kind: home, guide with programs, tables and pictures, playground. */
const KINDS = ['/', '/docs/guides/express.html', '/docs/concepts/choosing-an-algorithm.html', PLAYGROUND]

/** Pages of which everything is checked, such as `/ARCHITECTURE.html,/404.html`, or `all`, which takes four minutes. */
const WHOLE = process.env['SLUICE_PAGES']

/** Kinds of pages that have parts of their own on a phone. */
const PHONE_KINDS = ['/docs/guides/express.html', PLAYGROUND]

/** Returns the paths that axe checks. */
function checkedPaths(isPhone: boolean): readonly string[] {
  if (WHOLE === 'all') return ['/', '/404.html', ...allPages.map(pathOf)]
  return WHOLE?.split(',') ?? (isPhone ? PHONE_KINDS : KINDS)
}

/** Most rows of tables, groups of links and lines of code look like those before. Those of the home page are checked. */
const ALIKE = [
  '.vp-code .line',
  '.vp-doc tr:nth-child(n + 4)',
  '.VPSidebar .group:nth-child(n + 5)',
  '.VPDocOutlineItem',
]

/** A program for a page: collects what the keyboard should reach, and returns how many there are, and the first. */
const START_TABS = `(() => {
  const all = [...document.querySelectorAll('a[href], button, input:not([type=radio]:not(:checked)), select, summary, [tabindex="0"]')]
  globalThis.tabs = new Set(all.filter((each) => each.checkVisibility({ visibilityProperty: true }) && !each.disabled))
  return { count: tabs.size, first: [...tabs][0].textContent.trim() }
})()`

/** A program for a page: returns what is wrong with the element that has the focus, or ''. */
const NEXT_TAB = `(() => {
  const each = document.activeElement
  const name = each.outerHTML.slice(0, 120)
  if (!tabs.delete(each)) return 'reached twice, or unknown: ' + name
  const last = globalThis.last
  globalThis.last = each
  if (last && !(last.compareDocumentPosition(each) & Node.DOCUMENT_POSITION_FOLLOWING)) return 'out of order: ' + name
  // The tabs of a program are radio buttons that nobody sees, with labels.
  const shown = each.type === 'radio' ? each.nextElementSibling : each
  const { outlineStyle, outlineWidth } = getComputedStyle(shown)
  if (outlineStyle === 'none' || parseFloat(outlineWidth) < 2) return 'shows no focus: ' + name
  const { width, height } = each.getBoundingClientRect()
  return width > 0 && height > 0 ? '' : 'has no size: ' + name
})()`

/** A program for a page: returns which of some pages are wider than 360 pixels. They replace its content, one after the other. */
const WIDE_PAGES = `(async (paths) => {
  const texts = await Promise.all(paths.map(async (path) => (await fetch(path)).text()))
  const pages = texts.map((text) => new DOMParser().parseFromString(text, 'text/html'))
  const sources = new Set(pages.flatMap(({ images }) => Array.from(images, (image) => image.getAttribute('src'))))
  const pictures = Array.from(sources, (src) => Object.assign(new Image(), { src }))
  await Promise.all(pictures.map((picture) => picture.decode()))
  const wide = []
  for (const [i, { body }] of pages.entries()) {
    document.body.replaceWith(body)
    // The pictures are loaded, and appear in the next microtask.
    await undefined
    const width = document.documentElement.scrollWidth
    if (width > 360) wide.push(paths[i] + ': ' + width)
  }
  return { pictures: pictures.length, wide }
})`

let site: Site
let browser: Browser
/** A page for each kind of window. Each test loads it anew. */
const windows = new Map<string, Promise<Watched>>()

beforeAll(async () => {
  browser = await startChromium()
  site = await buildSite()
})

afterAll(async () => {
  await browser?.close()
  await site?.close()
})

async function newWindow(options: BrowserContextOptions): Promise<Watched> {
  return watchedPage(await browser.newContext(options), site.origin)
}

/** Opens a path, uses the page, and fails if the page requested anything from another server or had an error. */
async function open(path: string, options: BrowserContextOptions, use: (page: Page) => Promise<void>): Promise<void> {
  const name = JSON.stringify(options)
  const opened = windows.get(name) ?? newWindow(options)
  windows.set(name, opened)
  const { page, faults } = await opened
  // Another anchor of the same page would not load it.
  await page.goto('about:blank')
  faults.length = 0
  await page.emulateMedia({ colorScheme: options.colorScheme ?? null })
  await page.goto(site.origin + path)
  await use(page)
  expect(faults).toEqual([])
}

/** Returns the path on the site of a page of the repository. */
function pathOf(page: string): string {
  return page === 'README.md' ? '/start.html' : `/${page.replace(/\.md$/, '.html')}`
}

/** Returns the targets of all links and files of a page, from the root of the site. */
function targetsOf(path: string): string[] {
  const attributes = site.pages.get(path)!.matchAll(/ (?:href|src)="([^"]*)"/g)
  return Array.from(attributes, ([, link]) => link!.replaceAll('&amp;', '&'))
}

function isDead(path: string, link: string): boolean {
  if (/^(https:|data:|mailto:)/.test(link)) return false
  const { pathname, hash } = new URL(link, `http://site${path}`)
  const found = decodeURIComponent(pathname).replace(/\/$/, '/index.html')
  if (!site.files.has(found)) return true
  return hash !== '' && !site.pages.get(found)!.includes(` id="${decodeURIComponent(hash.slice(1))}"`)
}

describe('the built site', () => {
  it.each(allPages)('has %s', (page) => {
    expect(site.pages.get(pathOf(page))).toContain('<h1')
  })

  it('has no dead links', () => {
    const dead = [...site.pages.keys()].flatMap((path) =>
      targetsOf(path).flatMap((link) => (isDead(path, link) ? `${path} → ${link}` : [])),
    )
    expect(dead).toEqual([])
  })

  it('shows programs in TypeScript, as ES modules and with `require`', () => {
    const text = site.pages.get('/docs/guides/recipes.html')!
    for (const tab of ['TypeScript', 'ES modules', 'CommonJS']) expect(text).toContain(`>${tab}</label>`)
    expect(text).toMatch(/<span[^>]*> ?require<\/span>/)
    expect(text).not.toContain('The same in JavaScript')
  })

  it('has the anchors of GitHub', () => {
    const missing = allPages.flatMap((page) => {
      const text = site.pages.get(pathOf(page))!
      return [...anchorsOf(readPage(page))].filter((anchor) => !text.includes(` id="${anchor}"`))
    })
    expect(missing).toEqual([])
  })

  it('loads nothing from other servers', () => {
    const loaded = [...site.pages.values()].flatMap(
      (text) => text.match(/<(script|img|link)[^>]* (src|href)="http[^>]*>/g) ?? [],
    )
    expect(loaded).toEqual([])
  })

  it('has a text in each heading of a table', () => {
    const empty = [...site.pages].flatMap(([path, text]) => (/<th[^>]*><\/th>/.test(text) ? path : []))
    expect(empty).toEqual([])
  })

  it('lists every page once, in an order', () => {
    const links = sidebar(root).flatMap(({ items }) => items!.map(({ link }) => link!))
    const paths = allPages.map((page) => (page === 'README.md' ? '/start' : `/${page.slice(0, -'.md'.length)}`))
    expect(links.toSorted()).toEqual(paths.toSorted())
    expect(links.slice(0, 5)).toEqual([
      '/start',
      '/docs/playground',
      ...['express', 'fastify', 'koa'].map((each) => `/docs/guides/${each}`),
    ])
  })

  it.each([
    ['README.md', 'docs/guides/redis.md#setup', 'docs/guides/redis.md#setup'],
    ['docs/guides/redis.md', '../../README.md', '/start'],
    ['docs/guides/redis.md', '../../README.md#first-steps', '/start#first-steps'],
    ['docs/guides/redis.md', '../../examples/plans.ts', '/docs/site/examples/plans'],
    ['README.md', 'LICENSE', '/LICENSE'],
    ['docs/guides/monitoring.md', '../grafana.json', '/docs/grafana.json'],
    ['docs/guides/monitoring.md', '../img/outage.svg', '../img/outage.svg'],
    ['docs/guides/redis.md', '#setup', '#setup'],
    ['docs/guides/redis.md', 'https://example.com/LICENSE', 'https://example.com/LICENSE'],
  ])('on %s, the link %s leads to %s', (page, link, target) => {
    expect(siteLink(page, link)).toBe(target)
  })
})

it('the home page has one heading, and a program that is in the README', () => {
  expect(site.pages.get('/index.html')!.match(/<h1/g)).toHaveLength(1)
  const [program] = /(?<=```ts\n)[^]*?(?=```)/.exec(readPage('docs/site/home.md'))!
  expect(readPage('README.md')).toContain(program)
})

describe('in a browser', () => {
  it('finds a page without a network', () =>
    open('/', DESKTOP, async (page) => {
      await page.getByRole('button', { name: 'Search' }).click()
      await page.getByRole('searchbox').fill('throttler')
      await page
        .getByRole('option', { name: /nestjs\/throttler/ })
        .first()
        .click()
      await page.waitForURL(/docs\/migrating\/nestjs-throttler\.html/)
    }))

  // The playground, which needs its script, has a test of its own.
  it('no page is wider than a phone', () =>
    open('/404.html', { ...PHONE, javaScriptEnabled: false }, async (page) => {
      const paths = JSON.stringify([...site.pages.keys()])
      const { pictures, wide } = await page.evaluate<{ pictures: number; wide: string[] }>(`${WIDE_PAGES}(${paths})`)
      expect(pictures).toBeGreaterThan(20)
      expect(wide).toEqual([])
    }))

  describe.each(DEVICES.slice(0, 2))('in light and dark colours, on a %s', (_name, options) =>
    it.for(checkedPaths(options.isMobile === true))('%s passes axe, and is not too wide', (path) =>
      open(path, options, async (page) => {
        if (path === PLAYGROUND) await page.locator('.playground[aria-busy=false]').waitFor()
        const found: string[] = []
        for (const colorScheme of ['light', 'dark'] as const) {
          await page.emulateMedia({ colorScheme })
          await page.waitForFunction(
            `document.documentElement.classList.contains('dark') === ${colorScheme === 'dark'}`,
          )
          const exclude = WHOLE !== undefined || path === '/' ? [] : ALIKE
          const faults = await faultsOf(page, { exclude, onlyColours: colorScheme === 'dark' })
          found.push(...faults.map((fault) => `${colorScheme} ${fault}`))
        }
        expect(found).toEqual([])
      }),
    ),
  )

  it.each(['/', '/docs/guides/express.html'])(
    'the keyboard reaches everything on %s in order, and shows where it is',
    (path) =>
      open(path, DESKTOP, async (page) => {
        await page.locator('.VPNavBarAppearance button').waitFor()
        const { count, first } = await page.evaluate<{ count: number; first: string }>(START_TABS)
        expect(count).toBeGreaterThan(15)
        expect(first).toBe('Skip to content')
        const wrong: unknown[] = []
        for (let i = 0; i < count; i++) {
          await page.keyboard.press('Tab')
          const fault = await page.evaluate(NEXT_TAB)
          if (fault !== '') wrong.push(fault)
        }
        expect(wrong).toEqual([])
        expect(await page.evaluate('tabs.size')).toBe(0)
      }),
  )

  it('the link at the start skips to the content, and a wide table scrolls with the keyboard', () =>
    open('/docs/comparison.html', { viewport: { width: 390, height: 800 } }, async (page) => {
      await page.getByRole('link', { name: 'Skip to content' }).focus()
      await page.keyboard.press('Enter')
      expect(await page.evaluate('document.activeElement.id')).toBe('VPContent')
      const table = page.locator('.vp-doc table').first()
      await table.focus()
      await page.keyboard.press('ArrowRight')
      await expect.poll(() => page.evaluate('document.activeElement.scrollLeft')).toBeGreaterThan(0)
    }))
})

describe('the playground', () => playgroundTests(open, DESKTOP, PHONE))
