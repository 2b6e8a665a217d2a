import { migrateCommand, RIGHTS, type TableNames, wrongColumns } from './setup.ts'
import { hexOf, inQuotes, tableName } from './sql.ts'

// Checks of a table in PostgreSQL.

/** The data from the catalogs of PostgreSQL. */
interface Report {
  /** The user of the connection. */
  readonly user: string
  readonly isStandby: boolean
  /** Null if there is no such table. */
  readonly table: Found | null
}

interface Found {
  readonly schema: string
  readonly isUsable: boolean
  readonly isTable: boolean
  /** The rights of the user. */
  readonly rights: readonly string[]
  /** The rights that row-level security takes from the user, because no policy gives them. */
  readonly hidden: readonly string[]
  readonly columns: readonly Column[]
  readonly isUnique: boolean
}

interface Column {
  readonly name: string
  readonly type: string
  /** True if the column is `NOT NULL`. */
  readonly isFilled: boolean
  /** True if the server inserts a value by default. */
  readonly hasDefault: boolean
}

const TYPES: Readonly<Record<string, string>> = { key: 'bytea', state: 'bytea', expires_at: 'bigint' }

const LONGEST_NAME = 63

/** Returns the quoted name of a table. Throws `INVALID_OPTION`. */
export function postgresTableName(names: TableNames): string {
  return tableName(names, '"', LONGEST_NAME)
}

/**
 * Returns the problems of a table, with the statements that solve them. It changes nothing.
 * @param table the quoted name of the table
 */
export async function postgresProblems(
  query: (text: string) => Promise<readonly { readonly value: string }[]>,
  table: string,
  options: TableNames,
): Promise<string[]> {
  const { user, isStandby, table: found } = JSON.parse((await query(report(options)))[0]!.value) as Report
  const create = migrateCommand('postgres', options)
  const name = named(user)
  const problems = isStandby ? ['The server is a standby, which accepts no writes. Connect to the primary'] : []
  if (found === null) return [...problems, `The table ${table} does not exist. Create it: ${create}`]
  if (!found.isTable) return [...problems, `${table} is not a table. Choose another name with the option \`table\``]
  if (!found.isUsable)
    problems.push(
      `The user ${name} may not use the schema ${named(found.schema)}. Run: ${postgresSchemaGrant(found.schema, user)}`,
    )
  const missing = RIGHTS.filter((right) => !found.rights.includes(right))
  if (missing.length > 0)
    problems.push(
      `The user ${name} has no right to ${missing.join(', ')} in the table ${table}. Run: ${postgresGrant(table, user)}`,
    )
  if (found.hidden.length > 0)
    problems.push(
      `Row-level security of the table ${table} leaves the user ${name} no rows for ${found.hidden.join(', ')}. Run: CREATE POLICY sluice ON ${table} TO ${name} USING (true)`,
    )
  return [...problems, ...shapeProblems(table, found, create)]
}

/** Returns the statement that gives a user the rights that the store needs. */
export function postgresGrant(table: string, user: string): string {
  return `GRANT ${RIGHTS.join(', ')} ON TABLE ${table} TO ${named(user)}`
}

/** Returns the statement that lets a user use a schema. */
export function postgresSchemaGrant(schema: string, user: string): string {
  return `GRANT USAGE ON SCHEMA ${named(schema)} TO ${named(user)}`
}

function shapeProblems(table: string, { columns, isUnique }: Found, create: string): string[] {
  const differences = Object.entries(TYPES).flatMap(([column, type]) => {
    const given = columns.find(({ name }) => name === column)
    if (given === undefined) return [`${column} is missing`]
    return given.type === type ? [] : [`${column} is ${given.type} and must be ${type}`]
  })
  if (differences.length > 0) return [wrongColumns(table, differences, create)]
  const problems: string[] = []
  for (const { name, isFilled, hasDefault } of columns)
    if (isFilled && !hasDefault && name !== 'key' && name !== 'expires_at')
      problems.push(
        `The column ${name} of ${table} must accept NULL. Run: ALTER TABLE ${table} ALTER COLUMN ${named(name)} DROP NOT NULL`,
      )
  if (!isUnique) problems.push(`The table ${table} has no primary key. Run: ALTER TABLE ${table} ADD PRIMARY KEY (key)`)
  return problems
}

function named(name: string): string {
  return inQuotes(name, '"')
}

/** Returns a name as an SQL expression that does not depend on settings of the server for quotes. */
function text(name: string): string {
  return `convert_from(decode('${hexOf(name)}', 'hex'), 'UTF8')`
}

/**
 * Returns a query for one value: a `Report` as JSON. Without a schema, it finds the table that statements use, or a table in a schema of the search path
 * to which the user has no right.
 */
function report({ table = 'sluice', schema }: TableNames): string {
  const isUsable = "has_schema_privilege(n.oid, 'USAGE')"
  const path =
    "string_to_array(translate(replace(current_setting('search_path'), '$user', current_user), '\" ', ''), ',')"
  const place =
    schema === undefined
      ? `(pg_table_is_visible(c.oid) OR NOT ${isUsable} AND n.nspname = ANY (${path}))`
      : `n.nspname = ${text(schema)}`
  const rights = `SELECT json_agg(name) FROM unnest(ARRAY['${RIGHTS.join("', '")}']) AS name WHERE has_table_privilege(c.oid, name)`
  const policy = `SELECT FROM pg_policy WHERE polrelid = c.oid AND polpermissive AND polcmd IN ('*', cmd::"char")
  AND EXISTS (SELECT FROM unnest(polroles) AS role WHERE CASE role WHEN 0 THEN true ELSE pg_has_role(role, 'USAGE') END)`
  const hidden = `SELECT json_agg(name) FROM unnest(ARRAY['${RIGHTS.join("', '")}'], ARRAY['r', 'a', 'w', 'd']) AS each (name, cmd)
  WHERE row_security_active(c.oid) AND NOT EXISTS (${policy})`
  const columns = `SELECT json_agg(json_build_object('name', attname, 'type', replace(format_type(atttypid, NULL), '"', ''), 'isFilled', attnotnull,
  'hasDefault', atthasdef OR attidentity <> '')) FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped`
  const unique = `SELECT FROM pg_index AS i JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
  WHERE i.indrelid = c.oid AND a.attname = 'key' AND indnkeyatts = 1 AND indisunique AND indimmediate AND indisvalid AND indpred IS NULL`
  const found = `SELECT json_build_object('schema', n.nspname, 'isUsable', ${isUsable}, 'isTable', c.relkind IN ('r', 'p'),
  'rights', coalesce((${rights}), '[]'), 'hidden', coalesce((${hidden}), '[]'), 'columns', coalesce((${columns}), '[]'), 'isUnique', EXISTS (${unique}))
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relname = ${text(table)} AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND ${place}
ORDER BY pg_table_is_visible(c.oid) DESC LIMIT 1`
  return `SELECT json_build_object('user', current_user, 'isStandby', pg_is_in_recovery(), 'table', (${found}))::text AS value`
}
