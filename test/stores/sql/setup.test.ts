import { createPool } from 'mysql2/promise'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { perMinute, type SluiceError, type Store } from '../../../src/index.ts'
import { mysqlStore, mysqlTable } from '../../../src/stores/mysql.ts'
import { postgresStore, postgresTable } from '../../../src/stores/postgres.ts'
import { failureOf } from '../../support/code-of.ts'
import { keyed } from '../../support/limiters.ts'
import { freePort } from '../../support/redis.ts'
import { casesHere } from '../../parts.ts'
import { mysqlForAll, postgresClients, postgresForAll } from '../../support/sql-tests.ts'

/** A table that is wrong, and what `ready` says about it. */
interface Wrong {
  readonly title: string
  /** Makes the table. `table` is quoted. */
  make(table: string): readonly string[]
  /** What the user may do. */
  readonly rights?: string
  /** Parts of the message. */
  says(table: string): readonly string[]
  /** False where decisions succeed, or fail with another code. Default: true. */
  readonly failsDecisions?: boolean
  /** True if the statement in the message cannot solve it: the table must be made again. */
  readonly isFinal?: boolean
}

async function decide(store: Store): Promise<unknown> {
  return keyed(store, perMinute(5)).consume('ann')
}

/** The statements after `Run: ` in a message. */
function statementsIn({ message }: SluiceError): string[] {
  return [...message.matchAll(/Run: (.*?)(?=\. [A-Z]| \(sluice\/docs)/g)].map(([, statement]) => statement!)
}

const all = 'SELECT, INSERT, UPDATE, DELETE'
/** Rights of a user, and those that are missing then. */
const lacking: readonly (readonly [rights: string, missing: string])[] = [
  ['SELECT', 'INSERT, UPDATE, DELETE'],
  ['SELECT, UPDATE, DELETE', 'INSERT'],
  ['INSERT, UPDATE, DELETE', 'SELECT'],
  ['', all],
]
let tables = 0

interface World {
  /** Runs a statement with all rights. */
  query(text: string): Promise<unknown>
  /** A store for a user who has only the given rights. */
  store(table: string): Store
  /** Calls with a store of an address. */
  withStore: WithStore
  /** What `ready` says about a table that does not exist. */
  missing(table: string): string
  /** The address of a wrong user, and that of a wrong database. */
  readonly wrongUrls: readonly string[]
  /** The address of a server on another port. */
  urlAt(port: number): string
  quoted(table: string): string
  grant(rights: string, table: string): string
  create(table: string): string
  remove(): Promise<void>
}

type WithStore = (url: string, work: (store: Store) => Promise<unknown>, schema?: string) => Promise<void>

/** Tables in which the user has not all rights. */
function withoutRights(
  shape: string,
  pairs: readonly (readonly [rights: string, missing: string])[],
  says: (missing: string, table: string) => readonly string[],
): Wrong[] {
  const make = (table: string): string[] => [`CREATE TABLE ${table} (${shape})`]
  return [
    ...pairs.map(([rights, missing]) => ({
      title: `names the rights that are missing beside "${rights}"`,
      make,
      rights,
      says: (table: string) => says(missing, table),
    })),
    {
      title: 'names a right that only the deletion of expired rows needs',
      make,
      rights: 'SELECT, INSERT, UPDATE',
      says: () => ['no right to DELETE'],
      failsDecisions: false,
    },
  ]
}

function cases(open: () => Promise<World>, wrongs: readonly Wrong[]): void {
  let world: World
  beforeAll(async () => {
    world = await open()
  })
  afterAll(() => world.remove())

  it('is ready when all is right, and decides', async () => {
    const table = `right "${tables++}`
    await world.query(world.create(table))
    await world.query(world.grant(all, table))
    const store = world.store(table)
    await store.ready!()
    expect(await decide(store)).toMatchObject({ allowed: true, remaining: 4 })
  })

  it('says what to do about a table that does not exist', async () => {
    const table = `no "${tables++}`
    const store = world.store(table)
    const error = await failureOf(store.ready!())
    expect(error.code).toBe('STORE_SETUP')
    expect(error.message).toContain(world.missing(table))
    const decided = await failureOf(decide(store))
    expect([decided.code, decided.message]).toEqual([error.code, error.message])
  })

  it.each(wrongs)('$title', async ({ make, rights = all, says, failsDecisions = true, isFinal = false }) => {
    const table = `wrong "${tables++}`
    const quoted = world.quoted(table)
    for (const each of make(quoted)) await world.query(each)
    if (rights !== '') await world.query(world.grant(rights, table))
    const store = world.store(table)
    const error = await failureOf(store.ready!())
    expect(error.code).toBe('STORE_SETUP')
    for (const part of says(quoted)) expect(error.message).toContain(part)
    if (failsDecisions) {
      const decided = await failureOf(decide(store))
      expect([decided.code, decided.message]).toEqual([error.code, error.message])
    }
    if (isFinal) return
    const statements = statementsIn(error)
    expect(statements).not.toEqual([])
    for (const each of statements) await world.query(each)
    await store.ready!()
    expect(await decide(store)).toMatchObject({ allowed: true })
  })

  it('names a wrong user and a wrong database, and tells them from a server that does not answer', async () => {
    for (const url of world.wrongUrls)
      await world.withStore(url, async (store) => {
        const error = await failureOf(store.ready!())
        expect([error.code, error.message]).toEqual(['STORE_SETUP', expect.stringContaining('Correct the user')])
        expect((await failureOf(decide(store))).code).toBe('STORE_SETUP')
      })
    await world.withStore(world.urlAt(await freePort()), async (store) => {
      expect((await failureOf(store.ready!())).code).toBe('STORE_FAILED')
      expect((await failureOf(decide(store))).code).toBe('STORE_FAILED')
    })
  })
}

describe.each(casesHere(postgresClients, ({ name }) => name === 'pg'))(
  'the set-up of PostgreSQL with $name',
  { timeout: 60_000 },
  ({ name, open }) => {
    const shape = 'key bytea PRIMARY KEY, state bytea, expires_at bigint NOT NULL'
    const wrongs: Wrong[] = [
      ...withoutRights(shape, [...lacking, ['SELECT, INSERT, DELETE', 'UPDATE']], (missing, table) => [
        `"app" has no right to ${missing} in the table ${table}`,
        `GRANT ${all} ON TABLE ${table} TO "app"`,
      ]),
      {
        title: 'names a column of another type',
        make: (table) => [`CREATE TABLE ${table} (key text PRIMARY KEY, state jsonb, expires_at integer NOT NULL)`],
        says: (table) => [
          'key is text and must be bytea; state is jsonb and must be bytea; expires_at is integer and must be bigint',
          `DROP TABLE ${table}`,
        ],
        isFinal: true,
      },
      {
        title: 'names a column that is missing',
        make: (table) => [`CREATE TABLE ${table} (key bytea PRIMARY KEY, expires_at bigint NOT NULL)`],
        says: () => ['other columns: state is missing'],
        isFinal: true,
      },
      {
        title: 'says how to add a primary key',
        make: (table) => [`CREATE TABLE ${table} (key bytea, state bytea, expires_at bigint NOT NULL)`],
        says: (table) => [`ALTER TABLE ${table} ADD PRIMARY KEY (key)`],
      },
      {
        title: 'takes no unique index of two columns, and none of a part of the rows, for a primary key',
        make: (table) => [
          `CREATE TABLE ${table} (key bytea, state bytea, expires_at bigint NOT NULL, UNIQUE (key, expires_at))`,
          `CREATE UNIQUE INDEX ON ${table} (key) WHERE expires_at > 0`,
        ],
        says: (table) => [`ALTER TABLE ${table} ADD PRIMARY KEY (key)`],
      },
      {
        title: 'names columns that must accept NULL',
        make: (table) => [
          `CREATE TABLE ${table} (key bytea PRIMARY KEY, state bytea NOT NULL, expires_at bigint NOT NULL, "o""k" int DEFAULT 1 NOT NULL, "x""y" int NOT NULL)`,
        ],
        says: (table) => [
          `ALTER TABLE ${table} ALTER COLUMN "state" DROP NOT NULL`,
          `ALTER TABLE ${table} ALTER COLUMN "x""y" DROP NOT NULL`,
        ],
      },
      {
        title: 'names what no policy of row-level security allows',
        make: (table) => [
          `CREATE TABLE ${table} (key bytea PRIMARY KEY, state bytea, expires_at bigint NOT NULL)`,
          `ALTER TABLE ${table} ENABLE ROW LEVEL SECURITY`,
          `CREATE POLICY readers ON ${table} FOR SELECT USING (true)`,
          `CREATE POLICY others ON ${table} TO pg_monitor USING (true)`,
        ],
        says: (table) => [
          'no rows for INSERT, UPDATE, DELETE',
          `CREATE POLICY sluice ON ${table} TO "app" USING (true)`,
        ],
      },
      {
        title: 'takes no view',
        make: (table) => [
          `CREATE VIEW ${table} AS SELECT ''::bytea AS key, ''::bytea AS state, 0::bigint AS expires_at`,
        ],
        says: () => ['is not a table'],
        failsDecisions: false,
        isFinal: true,
      },
    ]
    const database = postgresForAll()
    const withStore: WithStore = async (url, work, schema) => {
      const { client, end } = open(url, 2)
      await work(postgresStore(client, { timeout: '5s', ...(schema !== undefined && { schema }) }))
      await end()
    }
    const world = async (): Promise<World> => {
      const { admin, server } = database
      await admin.query('CREATE ROLE app LOGIN')
      const { client, end } = open(server.url.replace('sluice@', 'app@'), 2)
      const quoted = (table: string): string => `"${table.replaceAll('"', '""')}"`
      return {
        query: (text) => admin.query(text),
        store: (table) => postgresStore(client, { table, timeout: '5s' }),
        withStore,
        missing: (table) => `does not exist. Create it: npx sluice migrate postgres://… --apply --table '${table}'`,
        wrongUrls: [server.url.replace('sluice@', 'nobody@'), server.url.replace(/postgres$/, 'nowhere')],
        urlAt: (port) => `postgres://sluice@127.0.0.1:${port}/postgres`,
        quoted,
        grant: (rights, table) => `GRANT ${rights} ON TABLE ${quoted(table)} TO app`,
        create: (table) => postgresTable({ table }),
        remove: end,
      }
    }
    // The other client sends the same statements. Its errors are what it can get wrong.
    const isFirst = name === 'pg'
    cases(world, isFirst ? wrongs : wrongs.filter(({ title }) => /^names (?:the|a) right|of another type/.test(title)))
    if (!isFirst) return

    it('takes a unique index for a primary key, and partitions for one table', async () => {
      for (const text of [
        'CREATE SCHEMA parts',
        'CREATE TABLE parts.sluice (key bytea NOT NULL UNIQUE, state bytea, expires_at bigint NOT NULL) PARTITION BY HASH (key)',
        'CREATE TABLE parts.one PARTITION OF parts.sluice FOR VALUES WITH (MODULUS 1, REMAINDER 0)',
      ])
        await database.admin.query(text)
      await withStore(
        database.server.url,
        async (store) => {
          await store.ready!()
          expect(await decide(store)).toMatchObject({ allowed: true })
        },
        'parts',
      )
    })

    it('names the schema that the user may not use, given or in the search path', async () => {
      const { admin, server } = database
      const url = server.url.replace('sluice@', 'app@')
      for (const text of ['CREATE SCHEMA "a b"', postgresTable({ schema: 'a b' }), 'GRANT ALL ON "a b".sluice TO app'])
        await admin.query(text)
      await withStore(
        url,
        async (store) => {
          const error = await failureOf(store.ready!())
          expect(error).toMatchObject({ code: 'STORE_SETUP' })
          expect(error.message).toContain('Run: GRANT USAGE ON SCHEMA "a b" TO "app"')
          expect((await failureOf(decide(store))).message).toBe(error.message)
          await admin.query('GRANT USAGE ON SCHEMA "a b" TO "app"')
          await store.ready!()
          await admin.query('REVOKE USAGE ON SCHEMA "a b" FROM app')
        },
        'a b',
      )
      for (const text of [
        'CREATE SCHEMA hidden',
        postgresTable({ schema: 'hidden' }),
        'ALTER ROLE app SET search_path TO "$user", hidden',
      ])
        await admin.query(text)
      await withStore(url, async (store) => {
        expect((await failureOf(store.ready!())).message).toContain('Run: GRANT USAGE ON SCHEMA "hidden" TO "app"')
      })
    })

    it('names a standby. A decision on it is an outage: it may be promoted', async () => {
      await database.newTable('sluice')
      const standby = await database.server.standby()
      await withStore(standby.url, async (store) => {
        const error = await failureOf(store.ready!())
        expect([error.code, error.message]).toEqual(['STORE_SETUP', expect.stringContaining('Connect to the primary')])
        expect((await failureOf(decide(store))).code).toBe('STORE_FAILED')
      })
      await standby.remove()
    })
  },
)

describe.each(casesHere(['MySQL'], () => false))('the set-up of %s', { timeout: 60_000 }, () => {
  const shape = '`key` VARBINARY(1024) NOT NULL PRIMARY KEY, state MEDIUMBLOB, expires_at BIGINT NOT NULL'
  const wrongs: Wrong[] = [
    ...withoutRights(shape, lacking, (missing, table) => [
      `\`app\`@\`127.0.0.1\` has no right to ${missing} in the table \`shop\`.${table}`,
      `GRANT ${all} ON \`shop\`.${table} TO \`app\`@\`127.0.0.1\``,
    ]),
    {
      title: 'names columns of another type',
      make: (table) => [
        `CREATE TABLE ${table} (\`key\` VARCHAR(255) PRIMARY KEY, state BLOB, expires_at INT NOT NULL)`,
      ],
      says: (table) => [
        'key is varchar(255) and must be varbinary(1024); state is blob and must be mediumblob; expires_at is int(11) and must be bigint',
        `DROP TABLE ${table}`,
      ],
      failsDecisions: false,
      isFinal: true,
    },
    {
      title: 'names a key that is too short',
      make: (table) => [
        `CREATE TABLE ${table} (\`key\` VARBINARY(255) PRIMARY KEY, state MEDIUMBLOB, expires_at BIGINT NOT NULL)`,
      ],
      says: () => ['other columns: key is varbinary(255) and must be varbinary(1024)'],
      failsDecisions: false,
      isFinal: true,
    },
    {
      title: 'names a column that is missing',
      make: (table) => [`CREATE TABLE ${table} (\`key\` VARBINARY(1024) PRIMARY KEY, expires_at BIGINT NOT NULL)`],
      says: () => ['other columns: state is missing'],
      isFinal: true,
    },
    {
      title: 'says how to add a primary key',
      make: (table) => [
        `CREATE TABLE ${table} (\`key\` VARBINARY(1024), state MEDIUMBLOB, expires_at BIGINT NOT NULL)`,
      ],
      says: (table) => [`ALTER TABLE ${table} ADD PRIMARY KEY (\`key\`)`],
    },
    {
      title: 'takes no primary key of two columns, and none of a part of the key',
      make: (table) => [
        `CREATE TABLE ${table} (\`key\` VARBINARY(1024), state MEDIUMBLOB, expires_at BIGINT NOT NULL, PRIMARY KEY (\`key\`(9)))`,
      ],
      says: (table) => [`ALTER TABLE ${table} DROP PRIMARY KEY, ADD PRIMARY KEY (\`key\`)`],
      failsDecisions: false,
    },
    {
      title: 'names columns that must accept NULL',
      make: (table) => [
        `CREATE TABLE ${table} (\`key\` VARBINARY(1024) PRIMARY KEY, state MEDIUMBLOB NOT NULL, expires_at BIGINT NOT NULL, ok INT NOT NULL DEFAULT 1, \`x\`\`y\` INT NOT NULL)`,
      ],
      says: (table) => [
        `ALTER TABLE ${table} MODIFY \`state\` mediumblob NULL`,
        `ALTER TABLE ${table} MODIFY \`x\`\`y\` int(11) NULL`,
      ],
      failsDecisions: false,
    },
  ]
  const database = mysqlForAll()
  const urlFor = (user: string): string => database.server.url.replace('sluice@', `${user}@`)
  const withStore: WithStore = async (uri, work) => {
    const pool = createPool({ uri, connectionLimit: 2 })
    await work(mysqlStore(pool, { timeout: '5s' }))
    await pool.end()
  }
  const world = async (): Promise<World> => {
    const { admin, server } = database
    await admin.query("CREATE USER app@'127.0.0.1'")
    // A user without any right to a database cannot connect to it.
    await admin.query('CREATE TABLE other (id INT)')
    await admin.query("GRANT SELECT ON shop.other TO app@'127.0.0.1'")
    const refused = { locked: 'ACCOUNT LOCK', expired: 'PASSWORD EXPIRE' }
    for (const [user, how] of Object.entries(refused)) {
      await admin.query(`CREATE USER ${user}@'127.0.0.1'; GRANT ALL ON shop.* TO ${user}@'127.0.0.1'`)
      await admin.query(`ALTER USER ${user}@'127.0.0.1' ${how}`)
    }
    const pool = createPool({ uri: urlFor('app'), connectionLimit: 2 })
    const quoted = (table: string): string => `\`${table}\``
    return {
      query: (text) => admin.query(text),
      store: (table) => mysqlStore(pool, { table, timeout: '5s' }),
      withStore,
      // Without rights to a table, a user does not learn whether it exists.
      missing: (table) => `has no right to ${all} in the table \`shop\`.${quoted(table)}`,
      wrongUrls: [...['nobody', ...Object.keys(refused)].map(urlFor), server.url.replace(/shop$/, 'nowhere')],
      urlAt: (port) => `mysql://sluice@127.0.0.1:${port}/shop`,
      quoted,
      grant: (rights, table) => `GRANT ${rights} ON shop.${quoted(table)} TO app@'127.0.0.1'`,
      create: (table) => mysqlTable({ table }),
      remove: () => pool.end(),
    }
  }
  cases(world, wrongs)

  it('names an engine without transactions and a table that does not exist, with statements', async () => {
    const { admin } = database
    await admin.query(mysqlTable({ table: 'plain' }).replace('1024', '1000').replace('InnoDB', 'MyISAM'))
    await admin.query('ALTER TABLE plain ENGINE = Aria')
    await admin.query('ALTER TABLE plain MODIFY `key` VARBINARY(1024) NOT NULL')
    const store = mysqlStore(admin, { table: 'plain', schema: 'shop' })
    expect((await failureOf(store.ready!())).message).toContain('Run: ALTER TABLE `shop`.`plain` ENGINE = InnoDB')
    await admin.query('ALTER TABLE `shop`.`plain` ENGINE = InnoDB')
    await store.ready!()
    const missing = mysqlStore(admin, { table: 'no table', schema: 'shop' })
    const create = `Create it: npx sluice migrate mysql://… --apply --table 'no table' --schema shop`
    expect((await failureOf(missing.ready!())).message).toContain(create)
    expect((await failureOf(decide(missing))).message).toContain(create)
  })

  it('looks at no other table whose name differs in case or in an accent', async () => {
    const { admin } = database
    await admin.query(mysqlTable({ table: 'Limits' }))
    for (const other of ['limits', 'Limïts']) await admin.query(`CREATE TABLE ${other} (id INT PRIMARY KEY, state INT)`)
    await admin.query('CREATE DATABASE Shop')
    await admin.query('CREATE TABLE Shop.Limits (id INT PRIMARY KEY, state INT)')
    for (const schema of [undefined, 'shop'])
      await mysqlStore(admin, { table: 'Limits', ...(schema !== undefined && { schema }) }).ready!()
  })

  it('names a server that accepts no writes. A decision on it is an outage: it may be promoted', async () => {
    const { admin } = database
    await admin.query(mysqlTable())
    await admin.query("GRANT ALL ON shop.sluice TO app@'127.0.0.1'")
    await admin.query('SET GLOBAL read_only = ON')
    await withStore(urlFor('app'), async (store) => {
      const error = await failureOf(store.ready!())
      expect([error.code, error.message]).toEqual(['STORE_SETUP', expect.stringContaining('accepts no writes')])
      expect((await failureOf(decide(store))).code).toBe('STORE_FAILED')
      await admin.query('SET GLOBAL read_only = OFF')
      await store.ready!()
    })
  })
})
