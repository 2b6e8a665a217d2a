// A process that uses a file of SQLite: see test/stores/sql/sqlite.test.ts.
import { writeFileSync } from 'node:fs'

const { package: home, task, file, ...given } = JSON.parse(process.argv[2])
const { createLimiter, fixedWindow } = await import(`${home}/src/index.js`)
const { sqliteStore } = await import(`${home}/src/stores/sqlite.js`)
const tasks = { suite, ask, stop, hold, use, openWithout }
await tasks[task]()

/** Prints the behaviours that the store does not have, with `node:sqlite`. */
async function suite() {
  const { storeBehaviours } = await import(`${home}/src/testing.js`)
  const { DatabaseSync } = await import('node:sqlite')
  let tables = 0
  const options = { returnArrays: true }
  const database = new DatabaseSync(file, options)
  const make = (clock) =>
    sqliteStore(tables % 2 === 0 ? file : database, { table: `t${tables++}`, clock, timeout: '5s' })
  const failures = []
  const behaviours = storeBehaviours(make, { runs: 60 })
  for (const { name, run } of behaviours) await run().catch((error) => failures.push(`${name}: ${error.message}`))
  console.log(JSON.stringify({ behaviours: behaviours.length, failures }))
}

/** Asks again and again, once the parent says so, and sends how many were admitted. */
async function ask() {
  const store = sqliteStore(file, given.options)
  const limits = fixedWindow({ quota: given.quota, window: '1h' })
  const limiter = createLimiter({ keyer: (key) => key, limits, store })
  process.send('ready')
  await new Promise((resolve) => process.once('message', resolve))
  let [admitted, busy] = [0, 0]
  for (let i = 0; i < given.asks; i++) {
    try {
      if (limiter.consume('one').allowed) admitted++
    } catch (error) {
      if (error.code !== 'STORE_BUSY') throw error
      busy++
    }
    if (i % 10 === 0) await new Promise(setImmediate)
  }
  process.send({ admitted, busy }, () => process.disconnect())
}

/** Makes one decision, and keeps the file open until it is killed. */
async function use() {
  const limits = fixedWindow({ quota: given.quota, window: '1h' })
  const limiter = createLimiter({ keyer: (key) => key, limits, store: sqliteStore(file) })
  limiter.consume('ann')
  process.on('message', () => undefined)
  process.send('used')
}

/** Stops before the COMMIT of its second decision. */
async function stop() {
  const { default: Database } = await import('better-sqlite3')
  const database = new Database(file)
  let commits = 0
  const halting = {
    exec: (text) => database.exec(text),
    close: () => undefined,
    prepare(text) {
      const statement = database.prepare(text)
      if (text !== 'COMMIT') return statement
      // The first creates the table.
      return { run: () => (++commits === 3 ? halt() : statement.run()) }
    },
  }
  const limits = fixedWindow({ quota: 5, window: '1h' })
  const limiter = createLimiter({ keyer: (key) => key, limits, store: sqliteStore(halting) })
  limiter.consume('ann')
  limiter.consume('ann')
}

function halt() {
  writeFileSync(given.marker, 'in a transaction')
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
}

/** Keeps the file locked for some time. */
async function hold() {
  const { default: Database } = await import('better-sqlite3')
  const database = new Database(file)
  database.exec('BEGIN IMMEDIATE')
  writeFileSync(given.marker, 'locked')
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, given.ms)
  database.exec('COMMIT')
}

/** Prints the error of a Node without `node:sqlite`, where better-sqlite3 is not installed. */
function openWithout() {
  const own = process.getBuiltinModule
  process.getBuiltinModule = (name) => (name === 'node:sqlite' ? undefined : own(name))
  try {
    sqliteStore(file)
  } catch ({ code, message }) {
    console.log(JSON.stringify({ code, message }))
  }
}
