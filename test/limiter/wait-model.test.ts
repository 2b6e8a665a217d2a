import { expect, it } from 'vitest'
import { everyone, fixedWindow, memoryStore, stack } from '../../src/index.ts'
import { virtualClock } from '../../src/testing/virtual-clock.ts'
import { dice } from '../support/harness.ts'
import { settled } from '../support/held-store.ts'

const WINDOW = 1000
const TENANT = 2
const SITE = 3

/** A request of a tenant that came at a step. */
interface Request {
  readonly tenant: string
  readonly name: string
}

/**
 * The slow model: all who wait, in one list. Each pass asks for every one of them, the tenant that was served longest ago first. A denial
 * closes the limit that denied for all who come later in this pass.
 */
class Model {
  readonly waiting: Request[] = []
  readonly served: string[] = []
  readonly #used = new Map<string, number>()
  readonly #turns = new Map<string, number>()
  #count = 0

  arrive(request: Request): void {
    if (!this.waiting.some(({ tenant }) => tenant === request.tenant)) this.#turns.set(request.tenant, ++this.#count)
    this.waiting.push(request)
    this.pass()
  }

  newWindow(): void {
    this.#used.clear()
    this.pass()
  }

  pass(): void {
    while (this.#serveOne());
  }

  #serveOne(): boolean {
    const closed = new Set<string>()
    const inTurn = this.waiting.toSorted((a, b) => this.#turns.get(a.tenant)! - this.#turns.get(b.tenant)!)
    for (const request of inTurn) {
      const limits = [request.tenant, 'site'] as const
      if (limits.some((each) => closed.has(each))) continue
      const denied = limits.find((each) => (this.#used.get(each) ?? 0) >= (each === 'site' ? SITE : TENANT))
      if (denied !== undefined) {
        closed.add(denied)
        continue
      }
      for (const each of limits) this.#used.set(each, (this.#used.get(each) ?? 0) + 1)
      this.#turns.set(request.tenant, ++this.#count)
      this.waiting.splice(this.waiting.indexOf(request), 1)
      this.served.push(request.name)
      return true
    }
    return false
  }
}

it('serves in the order of the slow model', async () => {
  for (let seed = 1; seed <= 60; seed++) {
    const below = dice(seed)
    const random = (): number => below(1e6) / 1e6
    const clock = virtualClock()
    const store = memoryStore({ clock })
    const limiters = [
      { keyer: ({ tenant }: Request) => tenant, limits: fixedWindow({ quota: TENANT, window: WINDOW }) },
      { keyer: everyone, limits: fixedWindow({ quota: SITE, window: WINDOW }) },
    ]
    const both = stack({ store, limiters })
    const model = new Model()
    const served: string[] = []
    for (let step = 0; step < 40; step++) {
      const came = Math.floor(random() * 5)
      for (let i = 0; i < came && step < 20; i++) {
        const tenant = ['ada', 'bob', 'eve', 'joe'][Math.floor(random() ** 2 * 4)]!
        const request = { tenant, name: `${tenant} ${step}.${i}` }
        model.arrive(request)
        void both.wait(request).then(() => served.push(request.name))
        await settled()
      }
      if (step % 2 === 1) {
        clock.advance(WINDOW)
        model.newWindow()
        await settled()
      }
    }
    expect(served.length).toBeGreaterThan(10)
    const at = (list: readonly string[]): string => list.join(', ')
    expect(`${seed}: ${at(served)}`).toBe(`${seed}: ${at(model.served)}`)
  }
})
