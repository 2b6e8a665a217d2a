import { inFile } from './mutation.mjs'

const tests = (name) => ({ files: ['test/stores/sql/mysql.test.ts'], name })
const mysql = (name) => inFile('src/stores/mysql.ts', tests(name))
const shared = (name) => inFile('src/stores/sql.ts', tests(name))

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
