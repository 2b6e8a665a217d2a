import { setImmediate as immediate } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import { memoryStore, type Store } from '../../../src/index.ts'
import { mysqlStore } from '../../../src/stores/mysql.ts'
import { postgresStore } from '../../../src/stores/postgres.ts'
import { sqliteStore } from '../../../src/stores/sqlite.ts'
import { type VirtualClock, virtualClock } from '../../../src/testing.ts'
import { names } from '../../support/harness.ts'
import { casesAtLength } from '../../parts.ts'
import { mysqlForAll, postgresForAll } from '../../support/sql-tests.ts'
import { limiterOn, run, setups, traces } from '../../support/traces.ts'
import { sqliteAddon } from '../../support/sqlite-addon.ts'

beforeAll(sqliteAddon, 600_000)

/** Decisions compared in a normal run; as many as wanted with SLUICE_EQUALITY. */
const DECISIONS = Number(process.env['SLUICE_EQUALITY'] ?? 6000)

interface Kind {
  readonly name: string
  /** Its part of the decisions. A decision on a server takes much longer than one in a file. */
  readonly share: number
  /** Traces at the same time. Each lane has a clock and a table of its own: rows are deleted by the clock, also after a trace. */
  readonly lanes: number
  /** Called in the block of its tests. */
  open(): (lane: number, clock: VirtualClock) => Store | Promise<Store>
}

const kinds: readonly Kind[] = [
  {
    name: 'SQLite',
    share: 0.85,
    lanes: 1,
    open: () => (_lane, clock) => sqliteStore(':memory:', { clock }),
  },
  {
    name: 'PostgreSQL',
    share: 0.1,
    lanes: names().length,
    open() {
      const database = postgresForAll()
      return async (_lane, clock) =>
        postgresStore(database.admin, { table: await database.newTable(), clock, timeout: '10s' })
    },
  },
  {
    name: 'MySQL or MariaDB',
    share: 0.05,
    lanes: names().length,
    open() {
      const database = mysqlForAll()
      return async (_lane, clock) =>
        mysqlStore(database.admin, { table: await database.newTable(), clock, timeout: '10s' })
    },
  },
]

describe.each(casesAtLength(kinds, ({ name }) => !name.includes('MariaDB')))(
  '$name decides the same as memory',
  ({ share, lanes, open }) => {
    const storeIn = open()
    let runs = 0
    let compared = 0

    it('in random traces under every algorithm', { timeout: 120_000 + DECISIONS * 5 }, async () => {
      const enough = DECISIONS * share
      const compare = async (lane: number): Promise<void> => {
        // The lanes begin with different algorithms, so that a short search has all of them.
        const first = lane % names().length
        const order = [...names().slice(first), ...names().slice(0, first)]
        const clocks = [virtualClock(), virtualClock()] as const
        const store = await storeIn(lane, clocks[1])
        while (compared < enough) {
          for (const algorithm of order) {
            if (compared >= enough) return
            const property = fc.asyncProperty(setups(algorithm), traces, async (setup, steps) => {
              const name = `run${runs++}`
              const memory = await run(limiterOn(memoryStore({ clock: clocks[0] }), name, setup), clocks[0], steps)
              const stored = await run(limiterOn(store, name, setup), clocks[1], steps)
              compared += memory.length
              if (!isDeepStrictEqual(stored, memory)) expect(stored).toEqual(memory)
            })
            await fc.assert(property, { numRuns: 2 })
            // SQLite answers at once, so nothing else would run.
            await immediate()
          }
        }
      }
      await Promise.all(Array.from({ length: lanes }, (_, lane) => compare(lane)))
      expect(compared).toBeGreaterThanOrEqual(enough)
    })
  },
)
