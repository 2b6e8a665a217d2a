import { messageOf, SluiceError } from '../util/errors.ts'
import { command, type Command, Misuse } from './command.ts'
import { applyMigration, EXAMPLE, isDatabaseUrl, statementsOf, withDatabase } from './databases.ts'
import { EXIT, withoutPasswords } from './print.ts'

const USAGE = `Usage: sluice migrate <database>           prints the statement that creates the table of a store
       sluice migrate <url>               prints it, and checks the table: columns, primary key, and the rights of the user in the URL
       sluice migrate <url> --apply       creates the table, and checks it. It never changes a table that exists

The database is postgres or mysql, or a URL such as ${EXAMPLE}. SQLite needs no migration.

  --table <name>    the name of the table (default: sluice)
  --schema <name>   its schema
  --grant <user>    also gives a user the rights that the store needs. MySQL: a name such as app@10.0.0.%
  --unlogged        PostgreSQL: faster, but the table is empty after a crash of the server, and unreadable on replicas
  --help            prints this help

Exit code: 0 on success, 1 if the table or the rights are wrong or the command fails, 2 if the call cannot be understood.
`

const OPTIONS = {
  table: { type: 'string' },
  schema: { type: 'string' },
  grant: { type: 'string' },
  unlogged: { type: 'boolean', default: false },
  apply: { type: 'boolean', default: false },
} as const

const RIGHT = 'The table exists. Its columns, its primary key and the rights are right.\n'

export const migrateCommand: Command = command(USAGE, OPTIONS, async (words, values) => {
  const [target] = words
  if (target === undefined || words.length > 1) throw new Misuse('expected a database or a URL')
  if (values.apply) {
    await applyMigration(target, values)
    return { text: RIGHT }
  }
  const statements = statementsOf(target, values)
  const text = statements.map((each) => `${each};\n`).join('')
  if (!isDatabaseUrl(target)) return { text }
  try {
    await withDatabase(target, values, ({ database }) => database.ready!())
    return { text, note: RIGHT }
  } catch (error) {
    const isWrong = error instanceof SluiceError && error.code === 'STORE_SETUP'
    const reason = withoutPasswords(messageOf(error))
    return isWrong
      ? { text, note: `${reason}\n`, exitCode: EXIT.failed }
      : { text, note: `The table was not checked: ${reason}\n` }
  }
})
