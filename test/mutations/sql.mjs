import { inFile } from './mutation.mjs'

const tests = (name) => ({ files: ['test/stores/sql/mysql.test.ts'], name })
const mysql = (name) => inFile('src/stores/mysql.ts', tests(name))
const shared = (name) => inFile('src/stores/sql.ts', tests(name))

const postgres = (name) => inFile('src/stores/postgres.ts', { files: ['test/stores/sql/postgres.test.ts'], name })
const postgresJs = (name) => inFile('src/stores/postgres.ts', { files: ['test/stores/sql/postgres-js.test.ts'], name })

/** Small mistakes in the stores of SQL databases. */
export const sql = [
  mysql('processes that share')('locks no rows', '`${rows} FOR UPDATE`', '`${rows}`'),
  mysql('rows that')('locks gaps between rows', 'ISOLATION LEVEL READ COMMITTED', 'ISOLATION LEVEL REPEATABLE READ'),
  mysql('what time it is')('takes the time before the locks', 'Number(began) + Number(late)', 'Number(began)'),
  mysql('what time it is')('takes SYSDATE for a clock that runs', 'Number(late) > 0', 'Number(late) >= 0'),
  mysql('its time zone')(
    'takes a jump for a wait',
    'Number(late) < (timeout + PATIENCE) * 1000',
    'Number(late) < Infinity',
  ),
  mysql('after a deadlock')('repeats no deadlock', '[1213, 1205,', '[1205,'),
  mysql('time-out of the lock')('repeats no time-out of a lock', '1205, 1568', '1568'),
  mysql('any settings')('fails where a transaction is open', '1205, 1568', '1205'),
  mysql('ended by the server')('sets no time-out', '`/*M! SET STATEMENT', '`/* SET STATEMENT'),
  mysql('of 4 MiB')('writes all rows in one text', '= 4 << 20', '= 64 << 20'),
  mysql('rows that')('waits for locked rows when it sweeps', ' FOR UPDATE SKIP LOCKED', ' FOR UPDATE'),
  mysql('rows that')('sweeps rows that count', 'AND expires_at < ${now()} ORDER', 'ORDER'),
  mysql('rows that')('sweeps only the first rows', "end === null ? `x''` : bytes(end)", "`x''`"),
  mysql('more than one error')(
    'does not listen to errors',
    ".includes(ignore)) connection.on('error', ignore)",
    '.includes(ignore)) void 0',
  ),
  mysql('a mistake')('takes a pool of another package', " && typeof inner.promise === 'function'", ''),
  mysql('a mistake')('truncates long keys', 'Buffer.byteLength(key) > LONGEST_KEY', 'key.length > Infinity'),
  mysql('a mistake')('has no advice for a table that is missing', "NO_TABLE.has(number) ? 'missing' :", ''),
  mysql('trips')('sends statements one by one', 'connection.config.multipleStatements === true &&', 'false &&'),
  mysql('many keys|keys of a table')('lists keys again', '\\`key\\` > ${bytes(key)}', '\\`key\\` >= ${bytes(key)}'),
  mysql('may have completion_type')(
    'ends transactions as the session says',
    "'COMMIT AND NO CHAIN NO RELEASE'",
    "'COMMIT'",
  ),
  mysql('may have sql_select_limit')('reads as many rows as the session says', ' LIMIT ${keys.length}`', '`'),
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
  inFile('src/stores/rows.ts', { files: ['test/stores/rows/rows.test.ts'] })(
    'fails all for a damaged section',
    " || error.code === 'DAMAGED_ROW'",
    '',
  ),
  shared('during COMMIT')(
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
    'release(false)\n      throw',
    'release(true)\n      throw',
  ),
  shared('swallows')(
    'waits for ever for an answer',
    '      release(true)\n      reject(',
    '      release(true)\n      void (',
  ),
  shared('so many attempts')(
    'repeats without end',
    "fault === 'undone' && i < MOST_REPEATS",
    "fault === 'undone' && i < 100",
  ),
  shared('has locked are not')(
    'never sweeps',
    'const hasMore = await this.#step()',
    'const hasMore = await Promise.resolve(false)',
  ),
]
