// One simulated site: many processes that share the limits of one store, in virtual time. The limiter code is real: a memory store of the
// package is the shared server, and each process has its own `lease()`. The network and the clock are simulated.
import { alias, exponential, uniform } from '../accuracy/traffic.mjs'

/** Length of the window of every limit, in microseconds: one second. */
export const WINDOW = 1_000_000
/** Processes that count locally report their sums so often, in microseconds. */
const REPORT_EVERY = 100_000
/** Bursts have this mean number of requests, and this mean gap between them, in microseconds. They reach one process. */
const BURST = { requests: 25, gap: 1000 }
/** A simulated day has this length in microseconds. The rate swings between 0.2 and 1.8 times its mean. */
const DAY = { length: 10_000_000, swing: 0.8 }
/** The process of skewed traffic that receives most requests receives this share. */
const FAVOURED = 0.9
/** Keys differ in their rate by Zipf's law: the second has half the rate of the first, the third a third. */
const ZIPF = 1
/** 2026-01-01, in microseconds. */
const BEGIN = 1_767_225_600_000_000

/**
 * What is simulated. All figures of a run depend on it, and on nothing else.
 * @typedef {object} Cell
 * @property {'exact' | 'lease' | 'reports' | 'shares'} method how processes decide
 * @property {number} processes
 * @property {number} keys each of them has its own quota
 * @property {'steady' | 'bursty' | 'diurnal' | 'skewed'} traffic
 * @property {number} network milliseconds from a process to the store and back
 * @property {number} quota units a second for each key
 * @property {number} rate requests a second of all processes together
 * @property {number} seconds how long is measured
 * @property {number} [warmUp] seconds before that. Default: 2
 * @property {number} seed
 * @property {string} [algorithm] default: gcra
 * @property {boolean} [isRouted] true if all requests of a key reach the same process
 * @property {boolean} [drained] true if all of the quota was used before the run
 * @property {boolean} [denyCache] true if each process has a `denyCache`
 * @property {{ for?: string, share?: number, from?: number }} [options] options of `lease`
 */

/**
 * Runs a cell. Returns what was measured.
 * @param {typeof import('sluice')} sluice
 * @param {Cell} cell
 */
export function simulate(sluice, cell) {
  const events = eventQueue()
  const warmUp = (cell.warmUp ?? 2) * 1_000_000
  const end = warmUp + cell.seconds * 1_000_000
  const measures = measuring(cell, events, warmUp, end)
  const method = METHODS[cell.method](sluice, cell, events, measures)
  startTraffic(cell, events, (process, key) => {
    measures.offered(process)
    method(process, key)
  })
  // Until the last answer is there.
  events.runUntil(end + cell.network * 1000)
  return measures.figures()
}

/** A virtual clock in whole microseconds, and what happens next. What is due at the same time happens in the order of its calls. */
function eventQueue() {
  /** A binary heap by time, then by order. */
  const heap = []
  let [now, order] = [0, 0]

  const isBefore = (one, other) => one.time < other.time || (one.time === other.time && one.order < other.order)

  function push(event) {
    let at = heap.length
    for (let parent = (at - 1) >> 1; at > 0 && isBefore(event, heap[parent]); parent = (at - 1) >> 1) {
      heap[at] = heap[parent]
      at = parent
    }
    heap[at] = event
  }

  function pop() {
    const [first] = heap
    const last = heap.pop()
    if (last === first) return first
    let at = 0
    for (let child = 1; child < heap.length; child = 2 * at + 1) {
      if (child + 1 < heap.length && isBefore(heap[child + 1], heap[child])) child++
      if (isBefore(last, heap[child])) break
      heap[at] = heap[child]
      at = child
    }
    heap[at] = last
    return first
  }

  return {
    /** Microseconds since the begin of the run. */
    now: () => now,
    /** Calls `happen` after so many microseconds. Returns the event; without `happen` it does nothing. */
    after(delay, happen) {
      const event = { time: now + Math.max(0, Math.round(delay)), order: order++, happen }
      push(event)
      return event
    },
    runUntil(end) {
      while (heap.length > 0 && heap[0].time <= end) {
        const { time, happen } = pop()
        now = time
        happen?.()
      }
      now = end
    },
  }
}

/** The clock that a store of the package uses. */
function clockOf(events) {
  return {
    now: () => (BEGIN + events.now()) / 1000,
    after(ms, wake) {
      const event = events.after(ms * 1000, wake)
      return () => (event.happen = undefined)
    },
  }
}

/** Starts the requests of a run: the same for every method, and for every network. */
function startTraffic({ processes, keys, traffic, rate, seed, isRouted }, events, request) {
  const random = uniform(seed)
  const gap = 1_000_000 / rate
  const pickKey =
    keys === 1
      ? () => 0
      : alias(
          Float64Array.from({ length: keys }, (_, i) => (i + 1) ** -ZIPF),
          random,
        )
  const anyProcess = () => Math.floor(random() * processes)
  const skewed = () => (random() < FAVOURED ? 0 : 1 + Math.floor(random() * (processes - 1)))
  const pickProcess = traffic === 'skewed' && processes > 1 ? skewed : anyProcess
  const placeOf = isRouted ? (key) => key % processes : pickProcess

  // Times are not rounded before they are added, so that the rate is exact.
  let next = 0
  function repeat(gapNow, happen) {
    next += exponential(random, gapNow())
    events.after(next - events.now(), () => {
      happen()
      repeat(gapNow, happen)
    })
  }

  function continueBurst(process, key, left) {
    request(process, key)
    if (left > 1) events.after(exponential(random, BURST.gap), () => continueBurst(process, key, left - 1))
  }

  function one() {
    const key = pickKey()
    request(placeOf(key), key)
  }
  function burst() {
    const key = pickKey()
    continueBurst(placeOf(key), key, Math.ceil(exponential(random, BURST.requests - 0.5)))
  }
  if (traffic === 'bursty') repeat(() => gap * BURST.requests, burst)
  else if (traffic === 'diurnal') repeat(() => gap / (1 + DAY.swing * Math.sin((2 * Math.PI * next) / DAY.length)), one)
  else repeat(() => gap, one)
}

/** Counts what happens. Only what happens after the warm-up is part of the figures, apart from the bounds. */
function measuring({ processes, keys, network, quota, seconds, drained }, events, warmUp, end) {
  const isMeasured = () => events.now() >= warmUp && events.now() <= end
  const offered = new Float64Array(processes)
  const admitted = new Float64Array(processes)
  const counts = { requests: 0, admitted: 0, waited: 0, trips: 0, operations: 0, refunds: 0, charged: 0, returned: 0 }
  const held = new Float64Array(keys)
  let overdrawn = 0
  // Answers of the store count at the time when the store decided. Answers of a process count at once, and wait here for those of the store.
  const halfTrip = (network * 1000) / 2
  const excess = excessMeter(keys, quota, drained === true)
  const waiting = []
  let head = 0

  function flush(until) {
    for (; head < waiting.length && waiting[head].time <= until; head++)
      excess.add(waiting[head].time, waiting[head].key)
    if (head > 65_536) {
      waiting.splice(0, head)
      head = 0
    }
  }

  return {
    offered(process) {
      if (!isMeasured()) return
      counts.requests++
      offered[process]++
    },
    /** A request was decided. `arrival`: when it came. */
    decided(process, key, arrival, isAllowed) {
      const isLater = events.now() !== arrival
      const isCounted = arrival >= warmUp && arrival <= end
      if (isCounted && isLater) counts.waited++
      if (!isAllowed) return
      if (isCounted) {
        counts.admitted++
        admitted[process]++
      }
      flush(events.now() - halfTrip)
      if (isLater) excess.add(events.now() - halfTrip, key)
      else waiting.push({ time: events.now(), key })
    },
    /** A message was sent to the store. */
    trip() {
      if (isMeasured()) counts.trips++
    },
    /** The store did so many operations. */
    operation(count = 1) {
      if (isMeasured()) counts.operations += count
    },
    /** The store charged units. */
    charged(key, units) {
      held[key] += units
      if (isMeasured()) counts.charged += units
    },
    /** A process returns units, and does not use them any more. */
    returns(key, units) {
      held[key] -= units
      if (isMeasured()) counts.refunds++
    },
    /** So many units can be used again at the store. */
    returned(units) {
      if (isMeasured()) counts.returned += units
    },
    /** A process used a unit that was charged before. */
    used(key) {
      if (--held[key] < -1e-6) overdrawn++
    },
    figures() {
      flush(Infinity)
      const { most, overdraft } = excess.figures()
      return {
        ...counts,
        overdrawn,
        excess: overdraft,
        mostInWindow: most,
        fairness: fairness(offered, admitted),
        perSecond: counts.operations / seconds,
      }
    },
  }
}

/**
 * The most that was admitted beyond the quota, over all intervals and keys. An interval of length `t` may have the capacity and what
 * returns in `t`. `most`: the most in any window, with one key.
 */
function excessMeter(keys, quota, isDrained) {
  const levels = new Float64Array(keys).fill(isDrained ? quota : 0)
  const times = new Float64Array(keys)
  const window = []
  let [first, most, worst] = [0, 0, -Infinity]
  return {
    add(time, key) {
      const level = Math.max(0, levels[key] - ((time - times[key]) * quota) / WINDOW) + 1
      levels[key] = level
      times[key] = time
      if (level > worst) worst = level
      if (keys > 1) return
      window.push(time)
      while (window[first] <= time - WINDOW) first++
      most = Math.max(most, window.length - first)
      if (first > 65_536) {
        window.splice(0, first)
        first = 0
      }
    },
    // Sums of fractions are exact to about a millionth.
    figures: () => ({ most, overdraft: worst - quota > 1e-6 ? worst - quota : 0 }),
  }
}

/** Jain's index of the shares of requests that were admitted: 1 if all processes have the same share, 1/n if one of n has all. */
function fairness(offered, admitted) {
  let [sum, squares, count] = [0, 0, 0]
  for (let i = 0; i < offered.length; i++) {
    if (offered[i] === 0) continue
    const share = admitted[i] / offered[i]
    sum += share
    squares += share * share
    count++
  }
  return squares === 0 ? 1 : (sum * sum) / (count * squares)
}

/** How processes decide. Each returns a function that is called with the process and the key of a request. */
const METHODS = {
  /** Each decision is a round trip. */
  exact: (sluice, cell, events, measures) => onStore(sluice, cell, events, measures, (remote) => remote),
  /** `lease()` in each process. */
  lease: (sluice, cell, events, measures) =>
    onStore(sluice, cell, events, measures, (remote) => sluice.lease(remote, cell.options)),
  reports,
  shares,
}

/** A limit of a second under one of the algorithms. */
function limitOf(sluice, algorithm, quota) {
  return sluice.limit({ name: 'simulated', window: WINDOW / 1000, ...ALGORITHMS[algorithm], quota })
}

/** The algorithms that can be leased, and the options that make their windows begin on the clock. */
export const ALGORITHMS = {
  gcra: { algorithm: 'gcra' },
  tokenBucket: { algorithm: 'tokenBucket' },
  'tokenBucket, refill by interval': { algorithm: 'tokenBucket', refill: 'interval' },
  'leakyBucket, shape: false': { algorithm: 'leakyBucket', shape: false },
  'fixedWindow, on the clock': { algorithm: 'fixedWindow', anchor: 'clock' },
  slidingWindowCounter: { algorithm: 'slidingWindowCounter' },
  slidingWindowBuckets: { algorithm: 'slidingWindowBuckets' },
  slidingWindowLog: { algorithm: 'slidingWindowLog' },
}

/** A memory store on the virtual clock, and what makes charges of its keys. */
function serverOf(sluice, limits, clock, maxKeys) {
  const store = sluice.memoryStore({ clock, maxKeys })
  const limiter = sluice.createLimiter({ name: 'simulated', keyer: String, limits, store })
  // The class of charges is not exported. A decision has one.
  const [{ policy, constructor: Charge }] = limiter.peek('any').limits
  return { store, charge: (key, cost) => new Charge(policy, key, cost) }
}

/** The texts of keys, each made once. */
function keyTexts() {
  const texts = []
  return (key) => (texts[key] ??= String(key))
}

const IGNORED = { answered: () => {}, failed: rethrow }

function rethrow(error) {
  throw error
}

/** Decisions through stores of the package: one server, and for each process a store that reaches it by the network. */
function onStore(sluice, cell, events, measures, wrap) {
  const limit = limitOf(sluice, cell.algorithm ?? 'gcra', cell.quota)
  const server = serverOf(sluice, limit, clockOf(events), 2 * cell.keys + 1)
  const text = keyTexts()
  if (cell.drained) drain(server, text, cell.keys, cell.quota, measures)
  const stores = []
  const cached = cell.denyCache ? (store) => sluice.denyCache(store) : (store) => store
  return (process, key) => {
    stores[process] ??= cached(wrap(remoteStore(server, events, measures, cell.network)))
    const charge = server.charge(text(key), 1)
    const arrival = events.now()
    stores[process].run(
      { kind: 'consume', charges: [charge], fresh: false },
      {
        answered() {
          if (charge.allowed) measures.used(key)
          measures.decided(process, key, arrival, charge.allowed)
        },
        failed: rethrow,
      },
    )
  }
}

/** Uses the whole quota of all keys before the run. */
function drain({ store, charge }, text, keys, quota) {
  for (let key = 0; key < keys; key++)
    store.run({ kind: 'adjust', charges: [charge(text(key), 0)], units: [quota] }, IGNORED)
}

/** The store of one process: each operation, and each reply, travels for half of a round trip. */
function remoteStore({ store, charge }, events, measures, network) {
  const halfTrip = (network * 1000) / 2

  function remaining(key) {
    const probe = charge(key, 0)
    store.run({ kind: 'peek', charges: [probe], fresh: false }, IGNORED)
    return probe.remaining
  }

  /** What the store does when an operation has reached it. */
  function happen(operation, reply) {
    measures.operation()
    const { kind, charges } = operation
    const before = kind === 'adjust' ? charges.map(({ key }) => remaining(key)) : []
    store.run(operation, reply)
    if (kind === 'consume')
      for (const each of charges) if (each.charged > 0) measures.charged(Number(each.key), each.charged)
    for (const [i, left] of before.entries()) measures.returned(remaining(charges[i].key) - left)
  }

  return {
    sync: false,
    place: store.place,
    clock: store.clock,
    answersAlways: false,
    run(operation, reply) {
      measures.trip()
      // The network carries what the operation is now.
      const sent = operation.kind === 'adjust' ? { ...operation, units: [...operation.units] } : operation
      if (sent.kind === 'adjust')
        for (const [i, { key }] of sent.charges.entries()) measures.returns(Number(key), -sent.units[i])
      events.after(halfTrip, () =>
        happen(sent, {
          answered: (by) => events.after(halfTrip, () => reply.answered(by)),
          failed: (error) => events.after(halfTrip, () => reply.failed(error)),
        }),
      )
    },
    close: async () => {},
  }
}

/** A gcra limit as one number: the units that are used now. They drain at the rate of the quota. */
class Level {
  units = 0
  time = 0

  drain(now, quota) {
    this.units = Math.max(0, this.units - ((now - this.time) * quota) / WINDOW)
    this.time = now
    return this.units
  }
}

/**
 * Processes decide by the last count of all that they know, and by their own requests since then. They report what they admitted every
 * 100 ms in one message, and learn the count of all from the reply. A process that has admitted nothing sends nothing.
 */
function reports(_sluice, { processes, network, quota, drained }, events, measures) {
  const halfTrip = (network * 1000) / 2
  const global = new Map()
  const local = Array.from({ length: processes }, (_, i) => ({
    levels: new Map(),
    unreported: new Map(),
    phase: Math.round((REPORT_EVERY * i) / processes),
  }))
  const full = () => {
    const level = new Level()
    if (drained) level.units = quota
    return level
  }
  const of = (levels, key) => levels.get(key) ?? levels.set(key, full()).get(key)

  function arrive(process, sums) {
    measures.operation(sums.size)
    const answer = new Map()
    for (const [key, units] of sums) {
      const level = of(global, key)
      level.drain(events.now(), quota)
      answer.set(key, (level.units += units))
    }
    const answered = events.now()
    events.after(halfTrip, () => {
      for (const [key, units] of answer) {
        const level = of(process.levels, key)
        Object.assign(level, { units, time: answered })
        level.drain(events.now(), quota)
        level.units += process.unreported.get(key) ?? 0
      }
    })
  }

  function report(process) {
    const sums = process.unreported
    process.unreported = new Map()
    measures.trip()
    events.after(halfTrip, () => arrive(process, sums))
  }

  /** Each process reports at its own multiples of 100 ms. */
  function reportSoon(process) {
    const sinceLast = (events.now() + REPORT_EVERY - process.phase) % REPORT_EVERY
    events.after(REPORT_EVERY - sinceLast, () => report(process))
  }

  return (process, key) => {
    const { levels, unreported } = local[process]
    const level = of(levels, key)
    const isAllowed = level.drain(events.now(), quota) + 1 <= quota
    if (isAllowed) {
      if (unreported.size === 0) reportSoon(local[process])
      level.units++
      unreported.set(key, (unreported.get(key) ?? 0) + 1)
    }
    measures.decided(process, key, events.now(), isAllowed)
  }
}

/** Each process has its own limit, of the quota divided by the number of processes. */
function shares(sluice, { processes, keys, quota, drained }, events, measures) {
  const share = Math.max(1, Math.floor(quota / processes))
  // The rate is exactly the share, also if less than one request a second is left of it.
  const limit = sluice.gcra({ name: 'simulated', quota: share, window: (share * processes * WINDOW) / quota / 1000 })
  const { store, charge } = serverOf(sluice, limit, clockOf(events), Math.min(8_000_000, 2 * keys * processes + 1))
  if (drained)
    for (let process = 0; process < processes; process++)
      store.run({ kind: 'adjust', charges: [charge(`${process}:0`, 0)], units: [share] }, IGNORED)
  return (process, key) => {
    const asked = charge(`${process}:${key}`, 1)
    store.run({ kind: 'consume', charges: [asked], fresh: false }, IGNORED)
    measures.decided(process, key, events.now(), asked.allowed)
  }
}
