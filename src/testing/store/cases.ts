import type { Clock } from '../../util/clock.ts'
import { createLimiter, type Limiter, stack } from '../../limiter/limiter.ts'
import type { LimiterOptions } from '../../limiter/options.ts'
import type { MaybePromise } from '../../util/maybe-promise.ts'
import { type AsyncStore, Charge, createPolicy, perform, type Store } from '../../stores/store.ts'
import { isLeasable, lease } from '../../stores/lease.ts'
import { memoryStore } from '../../stores/memory/index.ts'
import { type VirtualClock, virtualClock } from '../virtual-clock.ts'
import {
  fixedWindow,
  gcra,
  slidingWindowBuckets,
  slidingWindowCounter,
  slidingWindowLog,
  tokenBucket,
} from '../../engine/factories.ts'
import type { Limit } from '../../engine/limit.ts'
import { equal, holds, like } from '../behaviour.ts'

/** Makes a new, empty store that uses this clock. */
export type MakeStore = (clock: Clock) => MaybePromise<Store>

/** A store, its clock, and a function that makes limiters on the store. The inputs of these limiters are the keys. */
interface World {
  readonly store: Store
  readonly clock: VirtualClock
  on(limits: LimiterOptions<string>['limits'], options?: Partial<LimiterOptions<string>>): Limiter<string>
  close(): Promise<void>
}

type Cases = Readonly<Record<string, (world: World) => Promise<void>>>

export async function createWorld(makeStore: MakeStore): Promise<World> {
  const clock = virtualClock()
  const store = await makeStore(clock)
  return {
    store,
    clock,
    on: (limits, options) => createLimiter<string>({ keyer: (key) => key, limits, store, ...options }),
    close: async () => store.close(),
  }
}

/** Sends requests one after another. Returns for each whether it was admitted. */
async function verdicts(limiter: Limiter<string>, key: string, times: number, cost = 1): Promise<boolean[]> {
  const seen: boolean[] = []
  for (let i = 0; i < times; i++) seen.push((await limiter.consume(key, { cost })).allowed)
  return seen
}

const three = fixedWindow({ name: 'three', quota: 3, window: '1s' })
const one = fixedWindow({ name: 'one', quota: 1, window: '1s' })

export const takeCases: Cases = {
  'admits a quota, and again at retry, to the microsecond': async ({ on, clock }) => {
    const limiter = on(gcra({ quota: 3, window: 1000, name: 'edge' }))
    equal(await verdicts(limiter, 'a', 4), [true, true, true, false])
    const { retryAfter } = await limiter.consume('a')
    clock.advance(retryAfter - 0.001)
    equal((await limiter.consume('a')).allowed, false, 'allowed, a microsecond before')
    clock.advance(0.001)
    equal((await limiter.consume('a')).allowed, true, 'allowed, at its time')
  },
  'treats a key as new after resetAfter': async ({ on, clock }) => {
    const limiter = on(three)
    const { resetAfter } = await limiter.consume('a', { cost: 3 })
    clock.advance(resetAfter)
    like(await limiter.peek('a'), { remaining: 3 - 1 })
  },
  'returns a promise only if it is not `sync`': async ({ store, on }) => {
    const answer = on(three).consume('a')
    equal(answer instanceof Promise, !store.sync, 'a promise')
    await answer
  },
  'writes no verdict of a decision that is given up, and refunds it': async ({ store, on }) => {
    const limiter = on(three)
    const { limits } = await limiter.peek('a')
    const charge = (limits[0] as Charge).copy()
    const before = structuredClone(charge)
    // A store that usually answers later may answer some decisions at once.
    let isGivenUp = false
    await new Promise<void>((resolve) => {
      let isAnswered = false
      function end(): void {
        isAnswered = true
        resolve()
      }
      const giveUp = store.run({ kind: 'consume', charges: [charge], fresh: true }, { answered: end, failed: end })
      if (store.sync) equal(isAnswered, true, 'answered at once')
      isGivenUp = !isAnswered
      equal(giveUp !== undefined, isGivenUp, 'something to give up')
      giveUp?.()
    })
    if (isGivenUp) equal(structuredClone(charge), before)
    like(await limiter.peek('a', { cost: 0 }), { limits: [{ remaining: isGivenUp ? 3 : 2 }] })
  },
  'peeks without charging': async ({ on }) => {
    const limiter = on(one)
    for (let i = 0; i < 3; i++) like(await limiter.peek('a'), { allowed: true, remaining: 0 })
    equal(await verdicts(limiter, 'a', 2), [true, false])
    like(await limiter.peek('a'), { allowed: false, retryAfter: 1000 })
  },
  'charges every limit or none': async ({ on }) => {
    const limiter = on([three, one])
    const verdict = async (): Promise<unknown> =>
      (await limiter.consume('a')).limits.map((each) => [each.allowed, each.remaining])
    for (const isAllowed of [true, false, false])
      equal(await verdict(), [
        [true, 2],
        [isAllowed, 0],
      ])
  },
  'charges a cost as a whole, and reports Infinity for more than fits': async ({ on }) => {
    const limiter = on(three)
    equal(await verdicts(limiter, 'a', 2, 2), [true, false])
    like(await limiter.consume('a', { cost: 4 }), { allowed: false, retryAfter: Infinity })
    like(await limiter.consume('a', { cost: 1 }), { allowed: true, remaining: 0 })
    like(await limiter.consume('a', { cost: 0 }), { allowed: true })
  },
  'decides concurrent requests one after another': async ({ on }) => {
    const limiter = on(three)
    const answers = await Promise.all(Array.from({ length: 20 }, async () => limiter.consume('a')))
    equal(answers.filter(({ allowed }) => allowed).length, 3, 'admitted')
  },
  'charges denied requests of a strict limit, and not of a shadow limit': async ({ on, clock }) => {
    const strict = on(gcra({ quota: 1, window: 1000, strict: true, name: 'strict' }), { name: 'strict' })
    equal(await verdicts(strict, 'a', 2), [true, false])
    clock.advance(600)
    equal(await verdicts(strict, 'a', 1), [false])
    clock.advance(600)
    equal(await verdicts(strict, 'a', 1), [false])
    const shadow = on([three, fixedWindow({ name: 'shade', quota: 1, window: '1s', shadow: true })], { name: 'shadow' })
    equal(await verdicts(shadow, 'a', 4), [true, true, true, false])
  },
  'locks a key out for `block`, and further requests do not prolong it': async ({ on, clock }) => {
    const limiter = on(fixedWindow({ name: 'locked', quota: 1, window: '100ms', block: '5s' }))
    equal(await verdicts(limiter, 'a', 2), [true, false])
    clock.advance(4000)
    like(await limiter.consume('a'), { allowed: false, retryAfter: 1000 })
    clock.advance(1000)
    equal(await verdicts(limiter, 'a', 1), [true])
  },
  'locks a key out after several denials, and longer each time, until it has had none for a while': async ({
    on,
    clock,
  }) => {
    const block = { after: 2, for: '1s', factor: 3, upTo: '5s' } as const
    const limiter = on(fixedWindow({ name: 'growing', quota: 1, window: '500ms', block }))
    equal(await verdicts(limiter, 'a', 2), [true, false])
    like(await limiter.peek('a'), { allowed: false, retryAfter: 1000 })
    // From here on, every second denial begins a lock-out.
    for (const lasting of [1000, 3000, 5000, 5000]) {
      like(await limiter.consume('a'), { allowed: false, retryAfter: lasting, remaining: 0 })
      like(await limiter.consume('a'), { allowed: false, retryAfter: lasting })
      clock.advance(lasting)
      equal(await verdicts(limiter, 'a', 2), [true, false])
    }
    clock.advance(6000)
    equal(await verdicts(limiter, 'a', 2), [true, false])
    like(await limiter.consume('a'), { allowed: false, retryAfter: 1000 })
    await limiter.reset('a')
    equal(await verdicts(limiter, 'a', 2), [true, false])
    like(await limiter.consume('a'), { allowed: false, retryAfter: 1000 })
  },
  'never admits more when the clock steps back': async ({ on, clock }) => {
    const limiter = on(gcra({ quota: 3, window: 1000, name: 'back' }))
    equal(await verdicts(limiter, 'a', 3), [true, true, true])
    clock.advance(-500)
    equal(await verdicts(limiter, 'a', 1), [false])
  },
}

export const adjustCases: Cases = {
  'refunds a charge, once': async ({ on }) => {
    const limiter = on(three)
    const first = await limiter.consume('a', { cost: 2 })
    await limiter.consume('a')
    await limiter.refund(first)
    await limiter.refund(first)
    like(await limiter.peek('a', { cost: 0 }), { limits: [{ remaining: 2 }] })
  },
  'charges the actual cost, also past the limit': async ({ on, clock }) => {
    const limiter = on(three)
    await limiter.settle(await limiter.consume('a', { cost: 3 }), 1)
    like(await limiter.peek('a', { cost: 0 }), { limits: [{ remaining: 2 }] })
    await limiter.settle(await limiter.consume('a'), 5)
    equal(await verdicts(limiter, 'a', 1), [false])
    clock.advance((await limiter.peek('a')).resetAfter)
    equal(await verdicts(limiter, 'a', 1), [true])
  },
  'charges a penalty past the limit, also to a new key': async ({ on, clock }) => {
    const limiter = on(three)
    await limiter.penalize('a', 2)
    like(await limiter.peek('a', { cost: 0 }), { limits: [{ remaining: 1 }] })
    await limiter.penalize('a', () => 4)
    equal(await verdicts(limiter, 'a', 1), [false])
    clock.advance((await limiter.peek('a')).resetAfter)
    equal(await verdicts(limiter, 'a', 4), [true, true, true, false])
  },
  'refunds nothing to a window that has ended': async ({ on, clock }) => {
    const limiter = on(three)
    const old = await limiter.consume('a', { cost: 2 })
    clock.advance(1000)
    await limiter.consume('a', { cost: 3 })
    await limiter.refund(old)
    equal(await verdicts(limiter, 'a', 1), [false])
  },
  'refunds nothing of a charge that a reset has deleted': async ({ on, clock }) => {
    for (const limit of [
      three,
      gcra({ name: 'rate', quota: 3, window: '1h' }),
      slidingWindowLog({ quota: 3, window: '1h' }),
    ]) {
      const limiter = on(limit, { name: limit.algorithm })
      const [first, second] = [await limiter.consume('a'), await limiter.consume('a')]
      clock.advance(1)
      await limiter.reset('a')
      clock.advance(1)
      equal(await verdicts(limiter, 'a', 3), [true, true, true])
      await limiter.refund(first)
      await limiter.settle(second, 0)
      equal(await verdicts(limiter, 'a', 1), [false])
    }
  },
  'refunds a charge that was made after a reset': async ({ on, clock }) => {
    const limiter = on(three)
    await limiter.consume('a')
    await limiter.reset('a')
    clock.advance(1)
    await limiter.refund(await limiter.consume('a', { cost: 3 }))
    like(await limiter.peek('a', { cost: 0 }), { limits: [{ remaining: 3 }] })
  },
}

const short =
  String.raw`* ? [a] % %s %00 {a} a}b{c {} : a:b ' " "a" \ $ 0 -1 1e3 A a undefined null NaN __proto__ constructor toString`.split(
    ' ',
  )
const odd = [' ', '\0', '\n', '\r\n', 'a ', 'ü', 'é', 'e\u0301', '😀', '\ud800', '\udc00', '\ufeff']
/** Strings that some stores are known to confuse. */
const hostile: readonly string[] = [...short, ...odd, 'k'.repeat(5000), `${'k'.repeat(4999)}l`]

export const keyCases: Cases = {
  'are kept apart, whatever they contain': async ({ on }) => {
    const limiter = on(fixedWindow({ name: 'one', quota: 1, window: '1s' }))
    for (const key of hostile)
      equal(await verdicts(limiter, key, 2), [true, false], `key ${JSON.stringify(key.slice(0, 20))}`)
    for (const key of hostile)
      equal(await verdicts(limiter, key, 1), [false], `key ${JSON.stringify(key.slice(0, 20))}, again`)
  },
  'of two limiters or limits are kept apart, whatever the names contain': async ({ on }) => {
    const named = (name: string) => fixedWindow({ name, quota: 1, window: '1s' })
    const limiters = ['a', 'a:b', 'a:', '{a}', '%', '%3a'].map((name) => on([named('x'), named('x:y')], { name }))
    for (const limiter of limiters) {
      for (const key of ['c', 'b:c', ':c', '{a}', '3a']) equal(await verdicts(limiter, key, 2), [true, false], key)
    }
  },
  'of limiters with the same name and `shared` are counted together': async ({ on }) => {
    const limits = fixedWindow({ name: 'one', quota: 1, window: '1s' })
    const [first, second] = [on(limits, { shared: true }), on(limits, { shared: true })]
    equal([await verdicts(first, 'a', 1), await verdicts(second, 'a', 1)], [[true], [false]])
  },
  'are reset one by one': async ({ on }) => {
    const limiter = on([three, fixedWindow({ name: 'one', quota: 1, window: '1h' })])
    await limiter.consume('a')
    await limiter.consume('b')
    await limiter.reset('a')
    await limiter.reset('never seen')
    equal([await verdicts(limiter, 'a', 1), await verdicts(limiter, 'b', 1)], [[true], [false]])
  },
  'keep their usage when their limit changes': async ({ on }) => {
    const versions = [10, 4, 20].map((quota) => fixedWindow({ name: 'changing', quota, window: '1s' }))
    let version = 0
    const limiter = on(() => versions[version])
    await limiter.consume('a', { cost: 3 })
    version = 1
    like(await limiter.consume('a'), { allowed: true, remaining: 0 })
    equal(await verdicts(limiter, 'a', 1), [false])
    version = 2
    like(await limiter.consume('a'), { allowed: true, remaining: 15 })
  },
}

const many = fixedWindow({ name: 'many', quota: 100, window: '1s' })
const more = fixedWindow({ name: 'more', quota: 1000, window: '1h' })

export const lockCases: Cases = {
  'denies a key until its end, to the microsecond, and no other key': async ({ on, clock }) => {
    const limiter = on([many, more])
    await limiter.consume('used')
    for (const key of ['new', 'used']) await limiter.block(key, '5s')
    clock.advance(1000)
    for (const key of ['new', 'used'])
      like(await limiter.consume(key), { allowed: false, retryAfter: 4000, remaining: 0 })
    equal(await verdicts(limiter, 'other', 1), [true])
    clock.advance(3999.999)
    like(await limiter.consume('new'), { allowed: false, retryAfter: 0.001 })
    clock.advance(0.001)
    for (const key of ['new', 'used']) equal(await verdicts(limiter, key, 1), [true])
  },
  'is replaced by the next one, and ended by 0 and by reset': async ({ on }) => {
    const limiter = on(many)
    await limiter.block('a', '1h')
    await limiter.block('a', '1s')
    like(await limiter.peek('a'), { allowed: false, retryAfter: 1000 })
    await limiter.block('a', '1h')
    like(await limiter.peek('a'), { allowed: false, retryAfter: 3_600_000 })
    await limiter.block('a', 0)
    like(await limiter.consume('a'), { allowed: true, remaining: 99 })
    await limiter.block('a', '1h')
    await limiter.reset('a')
    like(await limiter.consume('a'), { allowed: true, remaining: 99 })
  },
  'is only made longer by a pause': async ({ on, clock }) => {
    const limiter = on(many)
    await limiter.pause('a', '2s')
    for (const shorter of ['1s', 0] as const) {
      await limiter.pause('a', shorter)
      like(await limiter.peek('a'), { allowed: false, retryAfter: 2000 })
    }
    await limiter.pause('b', 0)
    like(await limiter.peek('b'), { allowed: true, remaining: 99 })
    await limiter.pause('a', '3s')
    clock.advance(2000)
    like(await limiter.peek('a'), { allowed: false, retryAfter: 1000 })
    clock.advance(1000)
    equal(await verdicts(limiter, 'a', 1), [true])
  },
  'does not change the usage of the key': async ({ on, clock }) => {
    const limiter = on(more)
    await limiter.consume('a', { cost: 300 })
    await limiter.block('a', '1s')
    clock.advance(1000)
    like(await limiter.consume('a'), { allowed: true, remaining: 699 })
  },
}

/** The cases of decisions with several keys. */
export const stackCases: Cases = {
  'charges every limiter or none': async ({ on }) => {
    const user = on(three, { name: 'user' })
    const all = on(one, { name: 'all', keyer: () => 'everyone' })
    const both = stack(user, all)
    equal(await verdicts(both, 'a', 3), [true, false, false])
    like(await user.peek('a'), { remaining: 1 })
  },
  'locks the key of each part': async ({ on }) => {
    const user = on(many, { name: 'user' })
    const all = on(more, { name: 'all', keyer: () => 'everyone' })
    await stack(user, all).block('a', '1s')
    equal([await verdicts(user, 'a', 1), await verdicts(all, 'b', 1)], [[false], [false]])
    await user.block('a', 0)
    equal([await verdicts(user, 'a', 1), await verdicts(stack(user, all), 'a', 1)], [[true], [false]])
  },
}

/** A charge of a store: the times, and the units that were not refunded. */
interface Charged {
  readonly time: number
  readonly at: number
  units: number
}

/** Two processes with leases on one store, and the charges of both. */
class Leased {
  readonly stores: readonly AsyncStore[]
  readonly history: Charged[] = []
  /** The number of decisions that reached the store. */
  asked = 0

  constructor(store: AsyncStore, clock: Clock) {
    const seen: AsyncStore = {
      sync: false,
      answersAlways: false,
      place: store.place,
      clock: store.clock,
      run: (operation, reply) => {
        if (operation.kind === 'consume') this.asked++
        else if (operation.kind === 'adjust')
          for (const [i, { at }] of operation.charges.entries()) this.#refund(at, -operation.units[i]!)
        return store.run(operation, {
          answered: (by) => {
            if (operation.kind === 'consume')
              for (const { at, charged } of operation.charges)
                if (charged > 0) this.history.push({ time: clock.now(), at, units: charged })
            reply.answered(by)
          },
          failed: (error) => reply.failed(error),
        })
      },
      close: async () => undefined,
    }
    this.stores = [lease(seen, { share: 1, from: 2 }), lease(seen, { share: 1, from: 2 })]
  }

  get units(): number {
    return this.history.reduce((sum, { units }) => sum + units, 0)
  }

  /** Returns unused units to the store. */
  async close(): Promise<void> {
    await Promise.all(this.stores.map((each) => each.close()))
  }

  #refund(at: number, units: number): void {
    let left = units
    for (const each of this.history) {
      if (each.at !== at) continue
      const taken = Math.min(left, each.units)
      each.units -= taken
      left -= taken
    }
  }
}

/** Returns undefined for a store that cannot have leases. */
function leasedOf({ store, clock }: World): Leased | undefined {
  return store.sync || !isLeasable(store) ? undefined : new Leased(store, clock)
}

/** Throws if an exact store does not admit, at the same times, all units that were charged and not refunded. */
export function replay(
  limit: Limit,
  history: readonly Pick<Charged, 'time' | 'units'>[],
  what = `what ${limit.algorithm} has charged`,
): void {
  const clock = virtualClock()
  const store = memoryStore({ clock })
  const policy = createPolicy('replay', limit, store, store)
  for (const { time, units } of history.toSorted((a, b) => a.time - b.time)) {
    clock.set(time)
    const charge = new Charge(policy, 'key', units)
    perform(store, { kind: 'consume', charges: [charge], fresh: false })
    holds(charge.allowed, `${what}: an exact store does not admit ${units} at ${time}`)
  }
}

/** Limits that two processes can lease from. */
const leasedLimits: readonly Limit[] = [
  gcra({ quota: 60, window: '1s' }),
  tokenBucket({ quota: 60, window: '1s', capacity: 100 }),
  fixedWindow({ quota: 60, window: '1s', anchor: 'clock' }),
  slidingWindowLog({ quota: 60, window: '1s' }),
  slidingWindowCounter({ quota: 60, window: '1s' }),
  slidingWindowBuckets({ quota: 60, window: '1s', buckets: 5 }),
]

export const leaseCases: Cases = {
  'spend what was charged, and no more than an exact store admits': async (world) => {
    for (const limit of leasedLimits) {
      const leased = leasedOf(world)
      if (leased === undefined) return
      const [one, two] = leased.stores.map((store) => world.on(limit, { name: limit.algorithm, store, shared: true }))
      let used = 0
      for (let i = 0; i < 60; i++) {
        const limiter = i % 3 === 2 ? two! : one!
        const decision = await limiter.consume('a', { cost: 1 + (i % 2) })
        if (decision.allowed) used += 1 + (i % 2)
        holds(used <= leased.units, `${limit.algorithm}: ${used} units used, and ${leased.units} charged`)
        if (i % 7 === 3 && decision.allowed) {
          used -= 1 + (i % 2)
          await limiter.refund(decision)
        }
        if (i % 10 === 9) world.clock.advance(130)
      }
      await leased.close()
      replay(limit, leased.history)
      holds(leased.asked < 60, `${limit.algorithm}: nothing was leased`)
    }
  },
  'give back what is unused': async (world) => {
    const leased = leasedOf(world)
    if (leased === undefined) return
    const limit = fixedWindow({ name: 'hour', quota: 1000, window: '1h' })
    const limiter = world.on(limit, { store: leased.stores[0]! })
    for (let i = 0; i < 30; i++) await limiter.consume('a')
    await leased.close()
    like(await world.on(limit, { shared: true }).peek('a', { cost: 0 }), { limits: [{ remaining: 970 }] })
  },
  'end with a lock-out and with a reset': async (world) => {
    const leased = leasedOf(world)
    if (leased === undefined) return
    const limiter = world.on(fixedWindow({ name: 'hour', quota: 1000, window: '1h' }), { store: leased.stores[0]! })
    const heat = async (): Promise<void> => void (await verdicts(limiter, 'a', 20))
    await heat()
    await limiter.block('a', '1s')
    equal(await verdicts(limiter, 'a', 1), [false])
    world.clock.advance(1000)
    await heat()
    await limiter.reset('a')
    like(await limiter.consume('a'), { allowed: true, remaining: 999 })
    await leased.close()
  },
}
