import { migrateCommand, RIGHTS, type TableNames, wrongColumns } from './setup.ts'
import { hexOf, inQuotes, tableName } from './sql.ts'

// Checks of a table in MySQL or MariaDB.

/** Runs a statement, and returns its rows as arrays. */
export type RunMysql = (statement: string) => Promise<readonly (readonly (string | number | null)[])[]>

/** Errors: there is no such table, or no such database. */
const MISSING: ReadonlySet<unknown> = new Set([1146, 1049])
/** Errors: the user has no right to the statement, or to the database. */
const FORBIDDEN: ReadonlySet<unknown> = new Set([1142, 1143, 1044])
/** Errors: the server accepts no writes. */
const READ_ONLY: ReadonlySet<unknown> = new Set([1290, 1836, 1792])

const LONGEST_NAME = 64

/** Returns the quoted name of a table. Throws `INVALID_OPTION`. */
export function mysqlTableName(names: TableNames): string {
  return tableName(names, '`', LONGEST_NAME)
}

/**
 * Returns the problems of a table, with the statements that solve them. It changes nothing.
 * @param table the quoted name of the table
 * @param longestKey the bytes of the longest key
 */
export async function mysqlProblems(
  run: RunMysql,
  numberOf: (error: unknown) => number | undefined,
  table: string,
  options: TableNames,
  longestKey: number,
): Promise<string[]> {
  const create = migrateCommand('mysql', options)
  // Statements that change no row show which rights the user has, including rights from roles.
  const trials = {
    SELECT: `SELECT 1 FROM ${table} LIMIT 0`,
    INSERT: `INSERT INTO ${table} (\`key\`, expires_at) SELECT '', 0 FROM DUAL WHERE FALSE`,
    UPDATE: `UPDATE ${table} SET expires_at = 0 LIMIT 0`,
    DELETE: `DELETE FROM ${table} LIMIT 0`,
  }
  const forbidden: string[] = []
  let isReadOnly = false
  for (const right of RIGHTS) {
    try {
      await run(trials[right])
    } catch (error) {
      const number = numberOf(error)
      if (number === undefined) throw error
      if (MISSING.has(number)) return [`The table ${table} does not exist. Create it: ${create}`]
      if (FORBIDDEN.has(number)) forbidden.push(right)
      isReadOnly ||= READ_ONLY.has(number)
    }
  }
  const problems = isReadOnly
    ? ['The server accepts no writes. Connect to the primary, or run: SET GLOBAL read_only = OFF']
    : []
  const [[account, database] = []] = await run('SELECT CURRENT_USER(), DATABASE()')
  if (forbidden.length > 0) {
    const full = options.schema === undefined && database !== null ? `${named(String(database))}.${table}` : table
    const user = String(account)
    problems.push(
      `The user ${quotedUser(user)} has no right to ${forbidden.join(', ')} in the table ${full}. Run: ${mysqlGrant(full, user)}`,
    )
  }
  // Without a right, a user sees no columns.
  if (forbidden.length === RIGHTS.length) return problems
  return [...problems, ...(await shapeProblems(run, table, options, longestKey, create))]
}

/** Returns the statement that gives a user, such as `app` or `app@10.0.0.%`, the rights that the store needs. */
export function mysqlGrant(table: string, user: string): string {
  return `GRANT ${RIGHTS.join(', ')} ON ${table} TO ${quotedUser(user)}`
}

async function shapeProblems(
  run: RunMysql,
  table: string,
  { table: name = 'sluice', schema }: TableNames,
  longestKey: number,
  create: string,
): Promise<string[]> {
  const database = schema === undefined ? 'DATABASE()' : text(schema)
  const where = `WHERE ${isNamed('TABLE_SCHEMA', database)} AND ${isNamed('TABLE_NAME', text(name))}`
  const columns = await run(
    `SELECT COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE = 'NO' AND COLUMN_DEFAULT IS NULL AND EXTRA = '' FROM information_schema.COLUMNS ${where}`,
  )
  const types = new Map(columns.map(([column, type]) => [String(column), String(type)]))
  const expected: readonly (readonly [column: string, type: string, isRight: (type: string) => boolean])[] = [
    ['key', `varbinary(${longestKey})`, (type) => Number(/^varbinary\((\d+)\)$/.exec(type)?.[1]) >= longestKey],
    ['state', 'mediumblob', (type) => type === 'mediumblob' || type === 'longblob'],
    ['expires_at', 'bigint', (type) => type.startsWith('bigint')],
  ]
  const differences = expected.flatMap(([column, type, isRight]) => {
    const given = types.get(column)
    if (given === undefined) return [`${column} is missing`]
    return isRight(given) ? [] : [`${column} is ${given} and must be ${type}`]
  })
  if (differences.length > 0) return [wrongColumns(table, differences, create)]
  const problems: string[] = []
  for (const [column, type, isRequired] of columns)
    if (Number(isRequired) === 1 && column !== 'key' && column !== 'expires_at')
      problems.push(
        `The column ${String(column)} of ${table} must accept NULL. Run: ALTER TABLE ${table} MODIFY ${named(String(column))} ${String(type)} NULL`,
      )
  const primary = await run(
    `SELECT COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS ${where} AND INDEX_NAME = 'PRIMARY'`,
  )
  if (primary.length !== 1 || primary[0]![0] !== 'key' || primary[0]![1] !== null) {
    const other = primary.length === 0 ? '' : 'DROP PRIMARY KEY, '
    problems.push(
      `The primary key of ${table} must be \`key\`. Run: ALTER TABLE ${table} ${other}ADD PRIMARY KEY (\`key\`)`,
    )
  }
  const [[engine] = []] = await run(`SELECT ENGINE FROM information_schema.TABLES ${where}`)
  if (engine !== 'InnoDB')
    problems.push(
      `The table ${table} has no transactions: its engine is ${String(engine)}. Run: ALTER TABLE ${table} ENGINE = InnoDB`,
    )
  return problems
}

function named(name: string): string {
  return inQuotes(name, '`')
}

function quotedUser(user: string): string {
  const at = user.lastIndexOf('@')
  return at === -1 ? named(user) : `${named(user.slice(0, at))}@${named(user.slice(at + 1))}`
}

/** Returns the condition that a column has a name. MariaDB compares names without regard to case and accents, also where they are names of different tables. */
function isNamed(column: string, name: string): string {
  return `${column} = ${name} AND (@@lower_case_table_names > 0 OR CAST(${column} AS BINARY) = CAST(${name} AS BINARY))`
}

/** Returns a name as an SQL expression without quotes: settings of the server change how quotes are read. */
function text(name: string): string {
  return `CONVERT(x'${hexOf(name)}' USING utf8mb4)`
}
