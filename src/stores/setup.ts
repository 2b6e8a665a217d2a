import { shared } from '../util/copies.ts'
import { causeOf, reasonOf, SluiceError } from '../util/errors.ts'
import { detached } from '../util/maybe-promise.ts'
import { warn } from '../util/warn.ts'
import type { Store } from './store.ts'

// Errors about a server that is not set up for a store: of `ready`, and of a decision that the server refuses.

/** Returns the error of a store that is not set up. The problems say what to do. */
function setupError(problems: readonly string[], cause?: unknown): SluiceError {
  return new SluiceError('STORE_SETUP', problems.join('. '), cause === undefined ? {} : { cause })
}

/** The names of a table in the options of a store. */
export interface TableNames {
  readonly table?: string | undefined
  readonly schema?: string | undefined
}

/** The rights that a store needs in its table. */
export const RIGHTS = ['SELECT', 'INSERT', 'UPDATE', 'DELETE'] as const

/** The functions of a database that check its set-up. */
export interface Check {
  /** Returns a sentence for each problem, with the statement that solves it. */
  problems(): Promise<readonly string[]>
  /** Returns true for an error of a connection that a retry cannot solve: the user, the password or the database is wrong. */
  isRefused(error: unknown): boolean
}

/** Resolves if the set-up is correct. Rejects with `STORE_SETUP` if not, and with `STORE_FAILED` if the server does not answer. */
export async function verifySetup({ problems, isRefused }: Check): Promise<void> {
  let found: readonly string[]
  try {
    found = await problems()
  } catch (cause) {
    const reason = causeOf(cause)
    if (isRefused(cause))
      throw setupError([`The server refused the connection: ${reason}. Correct the user, password or database`], cause)
    throw new SluiceError('STORE_FAILED', `The database could not be checked: ${reason}`, { cause })
  }
  if (found.length > 0) throw setupError(found)
}

/** Returns the error of a decision that the server has refused. It has the text of `ready`, or the text of the server if `ready` finds no problem. */
export async function refusedBy(check: Check, cause: unknown): Promise<SluiceError> {
  try {
    await verifySetup(check)
  } catch (error) {
    if (error instanceof SluiceError && error.code === 'STORE_SETUP') return setupError([reasonOf(error)], cause)
  }
  return setupError(
    [`The server refused a statement: ${causeOf(cause)}. Correct the table, or the rights of the user`],
    cause,
  )
}

/** Returns the command that creates a table. `scheme` is the scheme of URLs of the database. */
export function migrateCommand(scheme: string, { table, schema }: TableNames): string {
  const options = [
    ...(table === undefined ? [] : ['--table', word(table)]),
    ...(schema === undefined ? [] : ['--schema', word(schema)]),
  ]
  return [`npx sluice migrate ${scheme}://… --apply`, ...options].join(' ')
}

/** Quotes a word for a shell if necessary. */
function word(text: string): string {
  return /^[\w-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

/** Returns the problem of a table with wrong columns. The table may belong to another program, so the text gives both choices. */
export function wrongColumns(table: string, differences: readonly string[], create: string): string {
  return (
    `The table ${table} has other columns: ${differences.join('; ')}. If it is a table of sluice, delete it and create it again; ` +
    `counts start from zero then: DROP TABLE ${table}; then ${create}. If it belongs to another program, choose another name with the option \`table\``
  )
}

const checked = shared('checked stores', () => new WeakSet<() => Promise<void>>())

/**
 * Checks the set-up of a store in the background, once. A wrong set-up becomes the warning `SLUICE_SETUP`. Other errors are ignored, because a guard
 * reports a store that does not answer.
 */
export function checkInBackground({ ready }: Store): void {
  if (ready === undefined || checked.has(ready)) return
  checked.add(ready)
  detached(ready, (error) => {
    if (error instanceof SluiceError && error.code === 'STORE_SETUP') warn('SLUICE_SETUP', reasonOf(error))
  })
}
