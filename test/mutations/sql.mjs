import { inFile } from './mutation.mjs'

const tests = (name) => ({ files: ['test/stores/sql/mysql.test.ts'], name })
const mysql = (name) => inFile('src/stores/mysql.ts', tests(name))
const shared = (name) => inFile('src/stores/sql.ts', tests(name))
const lostCommit = inFile('src/stores/sql.ts', { files: ['test/stores/sql/postgres.test.ts'], name: 'during COMMIT' })

const locked = (path, name) => inFile(path, { files: ['test/stores/sql/locked.test.ts'], name })
const connections = inFile('src/stores/connections.ts', { files: ['test/stores/connections.test.ts'] })
const rows = (name) => inFile('src/stores/rows.ts', { files: ['test/stores/rows/locked.test.ts'], name })

const postgres = (name) => inFile('src/stores/postgres.ts', { files: ['test/stores/sql/postgres.test.ts'], name })
const postgresJs = (name) => inFile('src/stores/postgres.ts', { files: ['test/stores/sql/postgres-js.test.ts'], name })

const SETUP = ['test/stores/sql/setup.test.ts']
const setup = (name, file = 'src/stores/setup.ts', files = SETUP) => inFile(file, { files, name })
const ofPostgres = (name) => setup(name, 'src/stores/postgres-setup.ts')
const ofMysql = (name) => setup(name, 'src/stores/mysql-setup.ts')
const ofAdapters = (name) => setup(name, 'src/stores/setup.ts', ['test/adapters/setup.test.ts'])
const ofMigrate = (name) => setup(name, 'src/cli/databases.ts', ['test/cli/databases.test.ts'])

/** Small mistakes in the stores of SQL databases. */
export const sql = [
  setup('wrong user')('takes a wrong password for an outage', 'if (isRefused(cause))', 'if (false)'),
  setup('rights')('finds problems and is ready', 'if (found.length > 0) throw', 'if (false) throw'),
  ofAdapters('once')('checks a store for each middleware', 'checked.has(ready)', 'false'),
  ofAdapters('does not answer')('warns of an outage', "&& error.code === 'STORE_SETUP') warn", ') warn'),
  ofPostgres('unique index of two')('takes an index of two columns', 'indnkeyatts = 1 AND', ''),
  ofPostgres('unique index of two')('takes an index of some rows', ' AND indpred IS NULL', ''),
  ofPostgres('schema')('finds no schema without rights', 'OR NOT ${isUsable} AND', 'AND'),
  ofPostgres('row-level')('takes a policy for other users', "pg_has_role(role, 'USAGE')", 'true'),
  ofPostgres('row-level')('finds no hidden rows', 'found.hidden.length > 0', 'found.hidden.length > 9'),
  ofPostgres('standby')('takes a standby', 'pg_is_in_recovery()', 'false'),
  ofMysql('takes no primary key')('takes a key of which a part is unique', ' || primary[0]![1] !== null', ''),
  ofMysql('accepts no writes')('takes a server that is read-only', 'isReadOnly ||= READ_ONLY.has(number)', ''),
  ofMysql('without transactions')('takes an engine without transactions', "engine !== 'InnoDB'", 'false'),
  ofMigrate('six')('does not wait for other migrations', '[wait, ...statements]', '[...statements]'),
  ofMigrate('changes no table')('does not check what it has created', 'await database.ready!()\n', '\n'),
  mysql('processes that share')('locks no rows', 'lockTimeOf(ms))} FOR UPDATE`', 'lockTimeOf(ms))}`'),
  mysql('rows that')('locks gaps between rows', 'ISOLATION LEVEL READ COMMITTED', 'ISOLATION LEVEL REPEATABLE READ'),
  mysql('what time it is')('takes the time before the locks', 'Number(began) + Number(late)', 'Number(began)'),
  mysql('what time it is')('takes SYSDATE for a clock that runs', 'Number(late) > 0', 'Number(late) >= 0'),
  mysql('its time zone')('takes a jump for a wait', 'Number(late) < (ms + PATIENCE) * 1000', 'Number(late) < Infinity'),
  mysql('after a deadlock')('repeats no deadlock', '[1213, 1568', '[1568'),
  mysql('time-out of the lock')('repeats no time-out of a lock', '[1205, 1969', '[1969'),
  mysql('any settings')('fails where a transaction is open', '[1213, 1568', '[1213'),
  mysql('any settings')('reads values as the pool does', 'typeCast: asSent', 'typeCast: true as never'),
  locked('src/stores/mysql.ts', 'as long as the caller waits')(
    'sets no time-out',
    '`/*M! SET STATEMENT',
    '`/* SET STATEMENT',
  ),
  mysql('of 4 MiB')('writes all rows in one text', '= 500_000', '= 64 << 20'),
  mysql('rows that')(
    'waits for locked rows when it sweeps',
    '${expired} FOR UPDATE SKIP LOCKED',
    '${expired} FOR UPDATE',
  ),
  mysql('rows that')('sweeps rows that count', 'AND expires_at < ${now()} ORDER', 'ORDER'),
  mysql('rows that')('sweeps only the first rows', "end === null ? `x''` : bytes(end)", "`x''`"),
  mysql('more than one error')(
    'does not listen to errors',
    ".includes(ignore)) connection.on('error', ignore)",
    '.includes(ignore)) void 0',
  ),
  mysql('a mistake')('takes a pool of another package', " && typeof inner.promise === 'function'", ''),
  mysql('a mistake')('truncates long keys', 'Buffer.byteLength(key) > LONGEST_KEY', 'key.length > Infinity'),
  setup('does not exist', 'src/stores/mysql.ts')(
    'has no advice for a table that is missing',
    "WRONG.has(number) ? 'wrong' :",
    '',
  ),
  mysql('trips')('sends statements one by one', 'connection.config.multipleStatements === true &&', 'false &&'),
  mysql('many keys|keys of a table')('lists keys again', '\\`key\\` > ${bytes(key)}', '\\`key\\` >= ${bytes(key)}'),
  mysql('may have completion_type')(
    'ends transactions as the session says',
    "'COMMIT AND NO CHAIN NO RELEASE'",
    "'COMMIT'",
  ),
  mysql('may have sql_select_limit')('reads as many rows as the session says', ' LIMIT ${keys.length}`', '`'),
  mysql('has no sessions left')(
    'leaves sessions that wait in COMMIT',
    '=> own.endSession((other) => endWaiting(other, Number(connection.threadId)))',
    '=> Promise.resolve()',
  ),
  mysql('without autocommit')(
    'leaves a transaction open',
    '[...READ, `SELECT NULL, NULL, COUNT(*) FROM ${table}`, END]',
    '[`SELECT NULL, NULL, COUNT(*) FROM ${table}`]',
  ),
  postgres('in all partitions')(
    'deletes rows of other partitions',
    'DELETE FROM ${table} WHERE key = ANY (ARRAY(${expired}))',
    'DELETE FROM ${table} WHERE ctid = ANY (ARRAY(${expired.replace("key", "ctid")}))',
  ),
  postgres('read-only by default')(
    'sweeps in a transaction of the role',
    '`${BEGIN}; WITH deleted',
    '`BEGIN; WITH deleted',
  ),
  postgres('leaves no sessions')(
    'leaves sessions that wait in COMMIT',
    '=> own.endSession((other) => other.query(ending(client)))',
    '=> Promise.resolve()',
  ),
  inFile('src/stores/guard/guarded-store.ts', {
    files: ['test/stores/sql/postgres.test.ts'],
    name: 'leaves no sessions',
  })('probes with the keys of other processes', 'Math.floor(Math.random() * MOST_PROBES)', '0'),
  postgres('lists keys')(
    'reads keys in the encoding of the database',
    "encode(key, 'hex') AS value",
    "convert_from(key, 'UTF8') AS value",
  ),
  postgresJs('ends neither')(
    'ends a transaction of a lost connection',
    'isLost ? undefined : end(false)',
    'end(false)',
  ),
  postgresJs('pascal')('reads columns by their names', 'each.rows ?? named(each)', 'each.rows ?? each'),
  inFile('src/stores/sql.ts', { files: ['test/package/bundles.test.ts'], name: 'is found beside a bundle' })(
    'packages that a bundle does not find',
    'if (found !== undefined) return found',
    'void found',
  ),
  inFile('src/stores/rows.ts', { files: ['test/stores/rows/rows.test.ts'] })(
    'fails all for a damaged section',
    " || error.code === 'DAMAGED_ROW'",
    '',
  ),
  lostCommit(
    'knows the outcome of a lost COMMIT',
    'throw isBrokenBy(error) ? unknownOutcome(error) : error',
    'throw error',
  ),
  shared('during COMMIT')(
    'knows the outcome of a COMMIT without an answer',
    'isCommitting ? unknownOutcome(lost(ms)) : ',
    '',
  ),
  shared('too late from the pool')(
    'closes a connection that comes late',
    'release(false)\n        throw',
    'release(true)\n        throw',
  ),
  shared('swallows')('waits for ever for an answer', 'reject(isCommitting ?', 'void (isCommitting ?'),
  shared('so many attempts')('repeats without end', 'i === MOST_REPEATS', 'i === 100'),
  shared('so many attempts')(
    'names no locked rows after deadlocks',
    'throw new BusyRows(keys,',
    'throw new Error(String(keys),',
  ),
  locked('src/stores/sql.ts', 'as long as the caller waits')(
    'waits for locks for the whole time',
    'Math.ceil((ms * 3) / 4)',
    'ms',
  ),
  locked('src/stores/postgres.ts', 'is named by the error')(
    'takes all rows for locked',
    "isFree === '0' ||",
    'isFree !== undefined ||',
  ),
  locked('src/stores/postgres.ts', 'that the other session has inserted')(
    'takes a row that another session inserts for free',
    'locked.push(...absent)',
    'locked.push()',
  ),
  locked('src/stores/sql.ts', 'as long as the caller waits')(
    'waits longer than its time-out',
    'Math.min(timeout, within)',
    'within',
  ),
  locked('src/stores/mysql.ts', 'is named by the error')('takes all rows for free', '&& !free.has(key)', '&& false'),
  locked('src/stores/mysql.ts', 'stopped process')(
    'sets no time for a stopped process',
    '${idle} = ${Math.ceil(',
    '${idle} = ${0 * (',
  ),
  connections('keeps no connections', 'count: number = DEFAULT_KEPT', 'count: number = 0'),
  connections('keeps connections for ever', 'performance.now() - IDLE_MS', '-Infinity'),
  connections('does not notice that the pool is ending', 'this.#pool.isEnding ? Infinity', 'false ? Infinity'),
  connections('uses connections that are lost', 'this.#idle = others', 'void others'),
  connections('takes more than half of the pool', 'Math.floor(this.#pool.size / 2)', 'this.#pool.size'),
  connections('takes connections of a small pool', 'this.#pool.size >= LEAST_SIZE', 'this.#pool.size >= 2'),
  connections('warns each time', 'this.#hasWarned = true', 'void 0'),
  connections('warns about a pool that is not full', 'clearTimeout(timer)', 'void timer'),
  connections(
    'leaves its settings',
    'answered(ANSWER_MS, this.#pool.leave(',
    'answered(ANSWER_MS, Promise.resolve() ?? (',
  ),
  rows('alone, and fails alone')('repeats nothing', 'return (this.#isRepeated = true)', 'return false'),
  rows('one at a time')('tries all locked rows at the same time', '|| !this.#isApart :', '|| true :'),
  rows('same error')(
    'lets what waits for a locked row wait on',
    '&& this.#waiting.delete(each)) each.fail',
    '&& this.isClosed) each.fail',
  ),
  rows('short time')('keeps other rows locked', '? SHORT_WAIT_MS : Infinity', '? Infinity : Infinity'),
  rows('time that is left')(
    'forgets how long an operation has waited',
    'within + this.#arrived - performance.now()',
    'within',
  ),
  rows('at most 256')('keeps any number of keys apart', 'this.#until.size > MOST_APART', 'this.#until.size > Infinity'),
  shared('has locked are not')(
    'never sweeps',
    'const hasMore = await step()',
    'const hasMore = await Promise.resolve(false)',
  ),
]
