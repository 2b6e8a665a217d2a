import { inFile } from './mutation.mjs'

const rows = {
  files: ['test/stores/sql/sqlite.test.ts'],
  name: 'locked|replaced|fails|clocks|is open|sqliteStore|killed|wait for each other',
}
const processes = { files: ['test/stores/sql/sqlite.test.ts'], name: 'of this Node' }
const objects = { files: ['test/stores/cloudflare/storage.test.ts'] }
const rest = {
  files: ['test/stores/redis/upstash.test.ts'],
  name: 'without the script|aborted|in one HTTP|cannot be reached',
}
const guarded = { files: ['test/stores/sql/sqlite.test.ts'], name: 'locked' }

const sqlite = inFile('src/stores/sqlite.ts', rows)
const object = inFile('src/stores/cloudflare/storage.ts', objects)
const upstash = inFile('src/stores/redis/clients.ts', rest)
const guard = inFile('src/stores/guard/calls.ts', { files: ['test/stores/guard/guard.test.ts'], name: 'the breaker' })

const swaps = { files: ['test/stores/rows/swap.test.ts'] }
const bindings = { files: ['test/stores/cloudflare/namespace.test.ts'] }
const workers = { files: ['test/util/worker.test.ts'] }

const peers = { files: ['test/stores/machine/machine.test.ts'], name: 'does not read' }

const heirs = { files: ['test/stores/machine/machine.test.ts'], name: 'does not take the counts' }

const ends = { files: ['test/stores/machine/processes.test.ts'], name: 'nothing left|process.exit' }

const listed = { files: ['test/stores/machine/machine.test.ts'], name: 'while decisions are made' }

const cut = { files: ['test/stores/machine/processes.test.ts'], name: 'whole snapshot' }

const files = { files: ['test/stores/machine/machine.test.ts'], name: 'is made again' }

const loading = { files: ['test/stores/machine/machine.test.ts'], name: 'sent nothing' }

const leaving = { files: ['test/stores/machine/machine.test.ts'], name: 'loses no decision' }

/** Small mistakes in the stores of SQLite, of Durable Objects and of Upstash, and of services with compare and set. */
export const stores = [
  inFile('src/stores/machine/index.ts', peers)(
    'messages without a bound for a process that hangs',
    ' || (this.#connection?.unsent ?? 0) > MOST_UNSENT',
    '',
  ),
  inFile('src/stores/machine/index.ts', leaving)(
    'decisions for a connection that ends',
    'this.#isGreeted = false\n    for (const ask of this.#asks.values())',
    'for (const ask of this.#asks.values())',
  ),
  inFile('src/stores/machine/serving.ts', heirs)(
    'two seconds for each process that does not take the counts',
    'asked.length < heirs.length ? SHORT_PATIENCE : PATIENCE',
    'PATIENCE',
  ),
  inFile('src/stores/machine/serving.ts', loading)(
    'two seconds for a process that still loads',
    'this.heirs.length > 0 ? GREETING : PATIENCE',
    'PATIENCE',
  ),
  inFile('src/stores/machine/index.ts', loading)(
    'no snapshot before the wait for a process that still loads',
    'serving.heirs.length === 0',
    'serving.peers.size === 0',
  ),
  inFile('src/stores/machine/index.ts', ends)(
    'no counts of a program that has nothing left to do',
    ".on('beforeExit', closeAll)",
    '',
  ),
  inFile('src/stores/machine/index.ts', ends)(
    'no snapshot in process.exit',
    'quietly(() => writeSnapshotNow(snapshot, serving.memory))',
    'return',
  ),
  inFile('src/stores/machine/index.ts', ends)(
    'a socket file without counts that stays',
    'else if (!serving.isChanged) this.#file.leave()',
    '',
  ),
  inFile('src/stores/machine/counts.ts', listed)('a list that new keys prolong', 'if (--left < 0) break', ''),
  inFile('src/stores/machine/counts.ts', listed)(
    'a turn for each batch',
    'text.length < FULL_WRITE',
    'text.length < 1',
  ),
  inFile('src/stores/machine/counts.ts', cut)(
    'a file that ends where the disk is full',
    'await file.appendFile(text)\n    await file.datasync()',
    'await file.write(text)\n    await file.datasync()',
  ),
  inFile('src/stores/machine/counts.ts', listed)(
    'the first of two records of a key',
    'isUnknown || (slot === NOWHERE && table.isFull)',
    'isUnknown || slot !== NOWHERE || table.isFull',
  ),
  inFile('src/stores/machine/index.ts', files)(
    'counts that are lost with the socket file',
    'if (this.#file.isOurs) return true',
    'return this.#file.isOurs',
  ),
  inFile('src/stores/machine/serving.ts', files)(
    'a server that is made again and accepts nobody',
    'this.#server = this.#accepting(server)\n  }\n\n  /** Does',
    'this.#server = server\n  }\n\n  /** Does',
  ),
  inFile('src/stores/swap.ts', swaps)(
    'a conflict that is not decided again',
    'waited >= PATIENCE && tries >= LEAST_TRIES',
    'tries >= 1',
  ),
  inFile('src/stores/swap.ts', swaps)('stacks over single swaps', "...(mostKeys === 1 && { together: 'record' }),", ''),
  inFile('src/stores/cloudflare/namespace.ts', bindings)(
    'stacks over several objects',
    "...(objects !== 1 && { together: 'key' }),",
    '',
  ),
  inFile('src/util/worker.ts', workers)('requests that end before a refund', 'runtime.waitUntil?.(work)', 'void work'),
  inFile('src/stores/guard/health.ts', { files: ['test/stores/guard/parts.test.ts'] })(
    'parts without a bound',
    'if (this.#parts.size < MOST_PARTS) return',
    'if (this.#parts.size > 0) return',
  ),
  inFile('src/stores/sqlite.ts', processes)(
    'no transactions',
    "['BEGIN IMMEDIATE', 'BEGIN', 'COMMIT', 'ROLLBACK']",
    "['PRAGMA user_version = 0', 'PRAGMA user_version = 0', 'PRAGMA user_version = 0', 'PRAGMA user_version = 0']",
  ),
  inFile('src/stores/sqlite.ts', { files: ['test/stores/sql/sqlite.test.ts'], name: 'null for no row' })(
    'no row that is null',
    'Object.values(row ?? {})[0]',
    'row === undefined ? undefined : Object.values(row as object)[0]',
  ),
  sqlite('a lock that is not waited for', "resultOf(error) !== 'BUSY' || ", "resultOf(error) === 'BUSY' || "),
  sqlite('waits without a budget', 'budget?.spend(cost)', 'void cost'),
  sqlite('a database that waits by itself', "exec('PRAGMA busy_timeout = 0')", "exec('PRAGMA busy_timeout = 100')"),
  sqlite('a changed setting of a database', 'exec(`PRAGMA busy_timeout = ${ms}`)', 'exec(`PRAGMA busy_timeout = 0`)'),
  sqlite('a locked database that is refused', 'repeaterOf(database)(AT_START, ', 'repeaterOf(database)(NONE, '),
  sqlite('a budget for each store', 'budgets.of(path, () => new WaitBudget())', 'new WaitBudget()'),
  sqlite(
    'a file that is replaced in silence',
    'if (idsOf(path) === current.ids) return',
    'if (current !== undefined) return',
  ),
  sqlite('a WAL that is replaced in silence', '[id, ...BESIDE.map((end) => idOf(path + end))]', '[id]'),
  sqlite('a failing disk that stops a start', 'error instanceof SluiceError && PASSING.has(error.code)', 'false'),
  inFile('src/stores/repeating.ts', rows)('a release that is not repeated', 'this.#repeatLater()\n    }', '}'),
  inFile('src/stores/repeating.ts', rows)(
    'a refund that waits for a lock',
    '{ ...operation, within: 0 })\n    } catch',
    'operation)\n    } catch',
  ),
  inFile('src/stores/sqlite.ts', { files: ['test/stores/sql/sqlite.test.ts'], name: 'is tried until the timeout' })(
    'a lock that is waited for much longer',
    'waited >= ms ||',
    'waited >= ms + 9000 ||',
  ),
  sqlite('a failed transaction that stays open', 'quietly(() => rollback!.run())', ''),
  sqlite('a peek that waits for writers', 'readOnly ? beginReading! : begin', 'readOnly ? begin : begin'),
  sqlite(
    'a foreign transaction that is rolled back',
    '      start.run()\n      try {',
    '      try {\n        start.run()',
  ),
  sqlite('rows deleted before they have expired', 'key <= ? AND expires_at < ?', 'key <= ? AND expires_at > ?'),
  sqlite('a sweep that stops at the end', "swept = next ?? ''", 'swept = next ?? AFTER_ALL'),
  sqlite('a sweep of everything at once', 'next ?? AFTER_ALL, Math', 'AFTER_ALL, Math'),
  sqlite('an error of SQLite without a remedy', 'advice === undefined ? message', 'advice !== undefined ? message'),
  sqlite('one file as two places', 'files.of(name, () => ({ name }))', '{ name }'),
  sqlite('a file that stays open', 'close: () => void current?.close()', 'close: () => undefined'),
  sqlite('results of better-sqlite3 not understood', '/^SQLITE_([A-Z]+)/', '/^SQLITE_([a-z]+)/'),
  guard('a failure that does not count', 'part.failed(this, error)', 'void part'),
  inFile('src/stores/guard/backlog.ts', { files: ['test/stores/guard/locks.test.ts'], name: 'the backlog' })(
    'a backlog that is sent to a store which fails again',
    'isOutFor(operation.charges) || this.#kept',
    'this.#kept',
  ),
  inFile('src/stores/store.ts', guarded)(
    'a store that fails at once without a guard',
    '  if (store.answersAlways) return store\n  if (store.wrappers',
    '  if (store.sync) return store\n  if (store.wrappers',
  ),
  object(
    'more keys at a time than the storage takes',
    'i += MOST_KEYS) yield items.slice(i, i + MOST_KEYS)',
    'i += MOST_KEYS) yield items.slice(i, i + 1)',
  ),
  object('rows that an alarm deletes too early', 'expiresAt < now)', 'expiresAt > now)'),
  object('no alarm', 'transaction.setAlarm(Math.min(', 'Promise.resolve(Math.min('),
  object('no further alarm', 'if (earliest === Infinity) return', 'if (earliest > 0) return'),
  object('an alarm without a bound', 'i < STEPS; i++', 'i < Infinity; i++'),
  object('two places of one storage', "placeOf(storage, 'the", "placeOf({}, 'the"),
  object('a value that is too large', 'hasSql ? ', 'storage !== undefined ? '),
  upstash('the script in a message', ".replace(/, command was: [^]*$/, '')", ''),
  upstash('a text for a verdict', 'if (Array.isArray(reply)) return reply', 'return reply'),
  upstash('a client of HTTP taken for one of ioredis', "'createScript' in client", "'createScripts' in client"),
]
