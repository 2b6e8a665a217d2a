// The page of the dashboard, in Chromium. `npm run plots` takes the pictures of docs/guides/monitoring.md.
import { channel } from 'node:diagnostics_channel'
import { createServer, request, type Server } from 'node:http'
import { syncBuiltinESMExports } from 'node:module'
import os from 'node:os'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { fork } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Redis } from 'ioredis'
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { createDashboard, type Dashboard } from '../../src/dashboard/board.ts'
import { LASTS, MOST_PROCESSES, TOPIC } from '../../src/dashboard/fleet.ts'
import { createLimiter, fixedWindow, gcra, guard, type Limiter, memoryStore, type Store } from '../../src/index.ts'
import { createRules, type Rules } from '../../src/rules/index.ts'
import { redisStore } from '../../src/rules/redis/index.ts'
import { textsIn } from '../../src/stores/texts.ts'
import { builtPackage } from '../support/built.ts'
import { faultsOf, startChromium, visit } from '../support/chromium.ts'
import { serveForTest } from '../support/http.ts'
import { laterStore } from '../support/later.ts'
import { root } from '../support/programs.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'

// A browser starts slowly on a busy machine.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 300_000 })

let browser: Browser
beforeAll(async () => {
  // Pictures do not show the name of the machine that has recorded them.
  os.hostname = () => 'api-1'
  syncBuiltinESMExports()
  browser = await startChromium()
})
afterAll(() => browser.close())

interface World {
  readonly url: string
  readonly limiter: Limiter<string>
  readonly board: Dashboard
  readonly server: Server
}

/** A program for the page: returns the headers and labels that are broken inside of a word, or cut. */
const BROKEN = `(() => {
  const isBroken = (node) => [...node.data.matchAll(/\\S+/g)].some(({ index, 0: word }) => {
    const range = document.createRange()
    range.setStart(node, index)
    range.setEnd(node, index + word.length)
    return new Set(Array.from(range.getClientRects(), ({ top }) => Math.round(top))).size > 1
  })
  const texts = [...document.querySelectorAll('thead th, dt, h1, h2, h3, label, button, summary, figcaption, .axis span, #plot-axis span')]
  if (texts.length < 25) throw new Error('The page has no headers')
  const broken = texts.filter((each) => [...each.childNodes].some((node) => node.nodeType === 3 && isBroken(node)))
  const isShown = (each) => getComputedStyle(each.closest('thead') ?? each).position !== 'absolute'
  const cut = [...document.querySelectorAll('thead th, td')].filter((each) => each.scrollWidth > each.clientWidth)
  return [...broken, ...cut].filter(isShown).map((each) => each.textContent)
})()`

let world: World
let rules: Rules
let isAdmin: boolean
/** Milliseconds by which the clock of the dashboard is late. */
let ago = 0

/** Starts a server with a dashboard and a limiter: 100 an hour, and 5 in a window that only watches. */
async function start(late: number, stores: Readonly<Record<string, Store>>): Promise<World> {
  isAdmin = true
  ago = late
  const clock = { now: () => Date.now() - ago }
  const store = memoryStore({ clock })
  const limits = [
    fixedWindow({ quota: 100, window: '1h', name: 'hourly' }),
    gcra({ quota: 5, window: '10s', name: 'trial', shadow: true }),
  ]
  const limiter = createLimiter({ name: 'api', keyer: (key: string) => key, limits, store })
  rules = createRules({ policies: [{ name: 'notes', key: 'ip', limits: [{ quota: 60, window: '1m' }] }] })
  const options = { authorize: () => isAdmin, limiters: [limiter], stores: { local: store, ...stores }, rules }
  const board = createDashboard(options, clock)
  const server = createServer(board).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, limiter, board, server }
}

async function stop({ server, board }: World): Promise<void> {
  board.close()
  server.closeAllConnections()
  server.close()
  await once(server, 'close')
}

/** A program for the page: asks the server five times as often. */
const HURRY = `
  const { setTimeout: later } = globalThis
  globalThis.setTimeout = (run, ms) => later(run, ms / 5)`

interface Opening extends BrowserContextOptions {
  /** Milliseconds by which the clock of the dashboard is late. */
  readonly late?: number
  readonly stores?: Readonly<Record<string, Store>>
  readonly prepare?: (context: BrowserContext) => Promise<unknown>
}

/** Opens the page. Fails for a request to elsewhere, an error, a warning or a violation of the Content-Security-Policy. */
async function open(
  use: (page: Page) => Promise<void>,
  { late = 0, stores = {}, prepare = (context) => context.addInitScript(HURRY), ...options }: Opening = {},
): Promise<void> {
  world = await start(late, stores)
  const useLive = async (page: Page): Promise<void> => {
    await page.locator('#connection[data-state=live]').waitFor()
    await use(page)
  }
  try {
    await visit(browser, world.url, options, useLive, prepare)
  } finally {
    await stop(world)
  }
}

function burst(times: number, key = 'ann'): void {
  for (let i = 0; i < times; i++) void world.limiter.consume(key)
}

/** Resolves when a condition is met in the page. */
function shows(page: Page, selector: string, text: RegExp): Promise<void> {
  return page.locator(selector).filter({ hasText: text }).first().waitFor()
}

/** Resolves when the page reports a problem. */
function alerts(page: Page, text: RegExp): Promise<void> {
  return page.getByRole('alert').filter({ hasText: text }).waitFor()
}

describe('the page of the dashboard', () => {
  it('shows what limits are, and how many requests they deny', async () => {
    await open(async (page) => {
      burst(150)
      await shows(page, '#limits tr', /hourly100 per hour, fixedWindow/)
      await shows(page, '#limits tr', /trial5 per 10 seconds, gcra, shadow/)
      await page.getByText('Show as a table').click()
      // Of 150 requests 50 are denied. Of the others, the trial would have admitted 5.
      await shows(page, '#minutes tr', /^the last55095$/)
    })
  })

  it('shows figures behind a proxy that changes Host, and says why it cannot look up keys', async () => {
    await open(async (page) => {
      burst(3)
      const proxy = await serveForTest((from, to) => {
        const options = { method: from.method!, headers: { ...from.headers, host: 'upstream' } }
        request(new URL(from.url!, world.url), options, (answer) => {
          to.writeHead(answer.statusCode!, answer.headers)
          answer.pipe(to)
        }).end()
      })
      const other = await page.context().newPage()
      await other.goto(proxy.url.replace('127.0.0.1', 'limits.example'))
      await shows(other, '#limits tr', /hourly100 per hour/)
      await other.locator('#key').fill('ann')
      await other.locator('#look-up button').click()
      await shows(other, '#answer', /A proxy must not change the header Host\.$/)
    })
  })

  it('asks every two seconds, and not while nobody looks', async () => {
    const prepare = (context: BrowserContext): Promise<void> => context.clock.install()
    const use = async (page: Page): Promise<void> => {
      let asked = 0
      page.on('request', (request) => void (asked += Number(request.url().endsWith('/state'))))
      await page.clock.pauseAt(Date.now() + 60_000)
      const pass = async (seconds: number): Promise<void> => {
        asked = 0
        for (let i = 0; i < 4 * seconds; i++) await page.clock.runFor(250)
      }
      await pass(10)
      // Answers take real time, in which this clock may go on.
      expect(asked).toBeGreaterThanOrEqual(2)
      expect(asked).toBeLessThanOrEqual(5)
      await page.evaluate('Object.defineProperty(document, "hidden", { configurable: true, get: () => true })')
      await pass(5)
      expect(asked).toBe(0)
      await page.evaluate('delete document.hidden; document.dispatchEvent(new Event("visibilitychange"))')
      await expect.poll(() => asked).toBe(1)
    }
    await open(use, { prepare })
  })

  it('works with only the keyboard, and returns the focus after the question', async () => {
    await open(async (page) => {
      burst(3)
      const focused = (): Promise<string> => page.evaluate<string>('document.activeElement.id')
      const tabTo = async (id: string): Promise<void> => {
        for (let i = 0; i < 10 && (await focused()) !== id; i++) await page.keyboard.press('Tab')
        expect(await focused()).toBe(id)
        expect(await page.evaluate('getComputedStyle(document.activeElement).outlineStyle')).toBe('solid')
      }
      await page.keyboard.press('Tab')
      expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip to content')
      await page.keyboard.press('Enter')
      expect(await focused()).toBe('content')
      await tabTo('limiter')
      await page.keyboard.press('Control+A')
      await page.keyboard.type('api')
      await tabTo('key')
      await page.keyboard.type('ann')
      await page.keyboard.press('Enter')
      await shows(page, '#states tr', /hourlyallowed397/)
      await tabTo('reset')
      await page.keyboard.press('Enter')
      expect(await focused()).toBe('cancel')
      await page.keyboard.press('Enter')
      expect(await focused()).toBe('reset')
      await page.keyboard.press('Enter')
      await page.keyboard.press('Escape')
      expect(await focused()).toBe('reset')
      expect((await world.limiter.peek('ann', { cost: 0 })).limits[0]).toMatchObject({ used: 3 })
      await page.keyboard.press('Enter')
      await tabTo('confirm-reset')
      await page.keyboard.press('Enter')
      await shows(page, '#states tr', /hourlyallowed0100/)
      expect(await focused()).toBe('reset')
    })
  })

  it('has names and roles for a screen reader, which hears of denials and answers', async () => {
    await open(async (page) => {
      burst(150)
      const heard = page.locator('[aria-live=polite]')
      await heard.filter({ hasText: 'Limits that deny requests: api / hourly' }).waitFor()
      await page.getByRole('img', { name: /requests per second over time/ }).waitFor()
      const limit = page.getByRole('row', { name: /^hourly/ })
      await limit.first().waitFor()
      await page.getByRole('button', { name: 'Look up ann' }).click()
      await page.getByRole('status').filter({ hasText: 'Found.' }).waitFor()
      await page.getByRole('button', { name: 'Reset this key…' }).click()
      const question = page.getByRole('dialog', { name: 'Reset this key?' })
      await question.getByRole('button', { name: 'Reset', exact: true }).click()
      await page.getByRole('status').filter({ hasText: 'The key was reset.' }).waitFor()
      await page.getByRole('combobox', { name: 'Limit', exact: true }).waitFor()
    })
  })

  it('keeps updating the list of denied keys after one was looked up', async () => {
    await open(async (page) => {
      burst(120)
      await page.getByRole('button', { name: 'Look up ann' }).click()
      await shows(page, '#states tr', /hourlydenied/)
      expect(await page.evaluate('document.activeElement.id')).toBe('answer')
      burst(120, 'bob')
      await page.getByRole('button', { name: 'Look up bob' }).waitFor()
    })
  })

  it('shows keys as text, whatever they contain', async () => {
    const key = '<img src=x onerror=alert(1)>\u202e"\'&\u061c\u200b\u{e0041}'
    await open(async (page) => {
      burst(120, key)
      await shows(page, '#top tr', /<img src=x/)
      await page.locator('#top button').first().click()
      await shows(page, '#states tr', /hourlydenied/)
      expect(await page.locator('main img').count()).toBe(0)
      // A character that changes the direction of text would change the words beside the key. With an invisible one, two keys would look the same.
      const shown = '<img src=x onerror=alert(1)>\\u202e"\'&\\u061c\\u200b\\udb40\\udc41'
      await page.locator('#reset').click()
      for (const id of ['top', 'found-title', 'confirm-text'])
        expect(await page.locator(`#${id}`).textContent()).toContain(shown)
      expect(await page.locator('#key').inputValue()).toBe(key)
    })
  })

  it('shows an outage first, by name and cause, and is no longer just live until the store is back', async () => {
    let isDown = true
    const inner = laterStore(memoryStore(), () =>
      isDown ? Promise.reject(new Error('ECONNREFUSED')) : Promise.resolve(),
    )
    const orders = guard(inner)
    const unnamed = guard(laterStore(memoryStore(), () => Promise.reject(new Error('no route'))))
    onTestFinished(async () => void (await Promise.all([orders.close(), unnamed.close()])))
    const use = async (page: Page): Promise<void> => {
      await shows(page, '#connection', /^Live$/)
      expect(await page.title()).toBe('Rate limits')
      const limits = fixedWindow({ quota: 100, window: '1h' })
      const limiter = createLimiter({ name: 'checkout', keyer: (key: string) => key, limits, store: orders })
      for (let i = 0; i < 3; i++) await limiter.consume('ann')
      await alerts(page, /^Outage: orders does not answer\.Cause: .*ECONNREFUSED.*Since .*limits decide/)
      await shows(page, '#connection', /^Outage: orders$/)
      expect(await page.title()).toBe('Outage: orders – Rate limits')
      // It is above everything else on the page, and on the first screen.
      const [top, below] = await Promise.all(
        [page.getByRole('alert'), page.locator('section').first()].map((each) => each.boundingBox()),
      )
      expect(top!.y + top!.height).toBeLessThan(below!.y)
      await record(page, 'dashboard-outage')
      const other = createLimiter({ name: 'mail', keyer: (key: string) => key, limits, store: unnamed })
      for (let i = 0; i < 3; i++) await other.consume('ann')
      await shows(page, '#connection', /^Outage: 2 stores$/)
      await shows(page, '.problem', /^Outage: the store of mail does not answer\.Cause: .*no route/)
      isDown = false
      await shows(page, '#stores li', /orders: answers, since/)
      expect(await page.locator('.problem').count()).toBe(1)
      await shows(page, '#connection', /^Outage: the store of mail$/)
    }
    await open(use, { stores: { orders } })
  })

  it('shows stores and rules, and first rules with mistakes', async () => {
    await open(async (page) => {
      await shows(page, '#stores li', /local: no outage seen/)
      await shows(page, '#rules li', /version 1, 1 policy/)
      channel('sluice:rules').publish({ event: 'invalid', rules, problems: [{}, {}], error: new Error('mistakes') })
      await alerts(page, /^Rules: A new document has 2 mistakes\. The current rules stay/)
      await shows(page, '#connection', /^Problem with rules$/)
      rules.replace({ policies: [] })
      await shows(page, '#connection', /^Live$/)
      expect(await page.locator('.problem').count()).toBe(0)
    })
  })

  it('has one figure for what is denied now: no text keeps an older one', async () => {
    await open(async (page) => {
      burst(150)
      await shows(page, '#denying', /^Denying now: api \/ hourly$/)
      // No figure is outside of the tiles.
      for (const id of ['denying', 'announcement']) expect(await page.locator(`#${id}`).textContent()).not.toMatch(/\d/)
      expect(await page.locator('#announcement').boundingBox()).toMatchObject({ width: 1 })
      ago = -20_000
      await page.locator('#now-denied').filter({ hasText: /^0$/ }).waitFor()
      expect(await page.locator('#denying').textContent()).toBe('No limit denies requests now.')
    })
  })

  it('has an axis with units', async () => {
    await open(async (page) => {
      expect(await page.locator('#plot-axis span').allTextContents()).toEqual(['1 / s', '0.5 / s', '0 / s'])
      burst(300)
      const others = page.locator('#plot-axis span').filter({ hasNotText: /^(1|0.5|0) / })
      await others.first().waitFor()
      // 200 denials in the two to ten seconds of the last step, by the axis.
      const [top] = await page.locator('#plot-axis span').allTextContents()
      const highest = await page.evaluate<number>(
        '1 - document.querySelector("#plot .denied-line").getBBox().y / document.querySelector("#plot svg").viewBox.baseVal.height',
      )
      expect(highest * parseFloat(top!)).toBeGreaterThan(19)
      expect(highest * parseFloat(top!)).toBeLessThan(101)
      expect(highest).toBeLessThanOrEqual(1)
    })
  })

  it('shows only the time since its start, and then ten minutes', async () => {
    await open(async (page) => {
      burst(3)
      await shows(page, '#plot-title', /^Since the start$/)
      await shows(page, '#since', /^The dashboard started at .*\d:\d\d.* no figures of the time before\.$/)
      expect(await page.locator('#plot-start').textContent()).toBe('1 min ago')
      expect(await page.evaluate('document.querySelector("#plot svg").viewBox.baseVal.width')).toBe(6)
      expect(await page.locator('#minutes tr').count()).toBe(1)
    })
    const use = async (page: Page): Promise<void> => {
      ago = 600_000 - 130_000
      burst(3)
      await shows(page, '#plot-start', /^2 min [23]0 s ago$/)
      expect(await page.locator('#minutes tr').count()).toBe(3)
      ago = 600_000 - 400_000
      burst(3)
      await shows(page, '#plot-start', /^(6 min 50 s|7 min) ago$/)
      ago = 0
      burst(3)
      await shows(page, '#plot-title', /^Ten minutes$/)
      await shows(page, '#plot-start', /^10 min ago$/)
      expect(await page.locator('#since').isVisible()).toBe(false)
      expect(await page.locator('#minutes tr').count()).toBe(10)
    }
    await open(use, { late: 600_000 })
  })

  it('reports a lost connection, and connects again', async () => {
    world = await start(0, {})
    const context = await browser.newContext()
    try {
      await context.addInitScript(HURRY)
      const page = await context.newPage()
      await page.goto(world.url)
      await page.locator('#connection[data-state=live]').waitFor()
      isAdmin = false
      world.server.closeAllConnections()
      await page.locator('#connection[data-state=lost]').waitFor()
      isAdmin = true
      await page.locator('#connection[data-state=live]').waitFor()
    } finally {
      await context.close()
      await stop(world)
    }
  })

  it.each([
    ['phone', 360, 800],
    ['desktop', 1100, 1150],
  ] as const)('is readable on a %s in light and dark, and passes axe', async (device, width, height) => {
    const backgrounds = { light: 'rgb(245, 246, 248)', dark: 'rgb(16, 18, 21)' } as const
    const use = async (page: Page): Promise<void> => {
      busy()
      await shows(page, '#top tr', /203\.0\.113/)
      await page.locator('#top button').first().click()
      await shows(page, '#states tr', /hourly/)
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width)
      await page.getByText('Show as a table').click()
      expect(await page.evaluate(BROKEN)).toEqual([])
      await page.getByText('Show as a table').click()
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme })
        expect(await page.evaluate('getComputedStyle(document.body).backgroundColor')).toBe(backgrounds[colorScheme])
        // The page of three processes has the other rules on a desktop.
        const onlyColours = device === 'desktop' || colorScheme === 'dark'
        expect(await faultsOf(page, { onlyColours })).toEqual([])
        await record(page, `dashboard-${device}-${colorScheme}`)
      }
    }
    await open(use, { viewport: { width, height }, bypassCSP: true, late: 600_000 })
  })
})

/** Ten minutes of decisions about some clients, some of which are denied. */
function busy(): void {
  for (let second = 590; second > 0; second--) {
    ago = second * 1000
    const load = 1 + Math.round(Math.sin(second / 40) ** 2 * 2)
    for (let i = 0; i < load; i++) burst(1, `203.0.113.${1 + ((second * (i + 3)) % 7)}`)
    // A client that the trial would deny.
    if (second % 120 < 20) burst(2, '203.0.113.9')
  }
  ago = 0
  burst(3, '203.0.113.1')
}

/** The pictures of docs/guides/monitoring.md. */
const PICTURES = ['dashboard-desktop-light', 'dashboard-phone-dark', 'dashboard-outage', 'dashboard-fleet']

async function record(page: Page, name: string): Promise<void> {
  if (process.env['SLUICE_RECORD'] !== 'pictures' || !PICTURES.includes(name)) return
  await page.evaluate('scrollTo(0, 0)')
  await page.screenshot({ path: join(root, `docs/img/${name}.png`), scale: 'css' })
}

describe('a page of three processes', { timeout: 240_000 }, () => {
  const WORKER = fileURLToPath(new URL('../support/fleet-worker.mjs', import.meta.url))
  const phone = { viewport: { width: 360, height: 800 }, bypassCSP: true }
  const desktop = { viewport: { width: 1100, height: 1150 }, bypassCSP: true }

  /** Ends at once what Redis keeps of a process for at most 45 seconds. */
  async function end(redis: RedisServer, pid: number): Promise<void> {
    const client = new Redis(redis.url)
    const texts = textsIn(redisStore(client), TOPIC)!
    const { name } = (await texts.read(MOST_PROCESSES)).find(({ text }) => text.includes(String(pid)))!
    expect(await client.pttl('sluice::fleet')).toBeLessThanOrEqual(LASTS)
    await texts.keep(name, 0, '')
    await client.quit()
  }

  it('adds them up on a desktop and on a phone, shows one that was killed in grey, and forgets it', async () => {
    const [home, redis] = await Promise.all([builtPackage(), startRedis()])
    const children = ['api-1', 'api-2', 'api-3'].map((host) =>
      fork(WORKER, [JSON.stringify({ package: home, port: redis.port, host })]),
    )
    onTestFinished(async () => {
      for (const child of children) child.kill('SIGKILL')
      await redis.stop()
    })
    const urls = await Promise.all(children.map(async (child) => String((await once(child, 'message'))[0])))
    // One of four requests is denied to each of three processes, in one count.
    for (const [i, child] of children.entries()) {
      child.send({ key: 'ann', times: 10 * (i + 1) })
      await once(child, 'message')
    }
    const use = async (page: Page): Promise<void> => {
      page.setDefaultTimeout(60_000)
      await page.locator('#connection[data-state=live]').waitFor()
      await shows(page, '#fleet', /^3 processes with a dashboard on Redis at 127\.0\.0\.1:\d+\.$/)
      for (const { pid } of children) await shows(page, '#processes tr', new RegExp(`process ${pid}, since`))
      expect(await page.locator('#self').textContent()).toMatch(new RegExp(`process ${children[0]!.pid}, since`))
      // 60 requests of all processes, of which 40 are admitted.
      await page.locator('details').evaluate((each) => each.setAttribute('open', ''))
      await shows(page, '#minutes tr', /^the last40200$/)
      await shows(page, '#top tr', /annapi \/ hourly20Look up/)
      await page.locator('details').evaluate((each) => each.removeAttribute('open'))
      expect(await page.evaluate(BROKEN)).toEqual([])
    }
    await visit(browser, urls[0]!, phone, async (small) => {
      await use(small)
      expect(await faultsOf(small)).toEqual([])
      await visit(browser, urls[0]!, desktop, async (page) => {
        await use(page)
        children[2]!.kill('SIGKILL')
        const killed = page.locator('#processes tr.lost')
        await killed.filter({ hasText: `process ${children[2]!.pid}` }).waitFor()
        expect(await killed.count()).toBe(1)
        await end(redis, children[2]!.pid!)
        expect(await faultsOf(page)).toEqual([])
        await record(page, 'dashboard-fleet')
        await shows(page, '#fleet', /^2 processes /)
        await shows(small, '#fleet', /^2 processes /)
        expect(await page.locator('#processes tr').count()).toBe(2)
        await redis.kill()
        await alerts(page, /Other processes are not known: Redis at .* does not answer this page\.Cause: /)
      })
    })
  })
})
