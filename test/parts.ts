// Which tests `npm test` runs, and which `npm run test:all` adds. CONTRIBUTING.md says where a new test belongs.

/** The part of the tests that runs: `quick` in `npm test`, `rest` in `npm run test:all`. Without it, a file runs both. */
const PART = process.env['SLUICE_PART']

/** Files and folders that `npm test` leaves out, and why. */
export const REST: Readonly<Record<string, string>> = {
  'test/bench/**': 'tests pages of benchmarks',
  'test/docs/**': 'runs the documents',
  'test/e2e/**': 'runs real clients and proxies, and the example of a gateway',
  'test/site/site.test.ts':
    'builds the site and opens it in a browser; scenario.test.ts has what the playground computes',
  'test/soak/**': 'loads Redis for 20 seconds',
  'test/adapters/upload-flood.test.ts': 'a flood of uploads',
  'test/algorithms/added.test.ts': 'adds an algorithm to a copy of the repository, and builds and tests the copy',
  'test/cli/databases.test.ts': 'starts PostgreSQL and MariaDB; the commands on Redis are in test/cli',
  'test/cli/logs/memory.test.ts': 'reads logs of a million lines',
  'test/cli/replay-html.test.ts': 'opens a report in a browser; replay-page.test.ts has what it says',
  'test/cli/rules-large.test.ts': 'compares 8,000 policies',
  'test/cli/serve.test.ts': 'starts processes and servers; test/service has what they answer',
  'test/cli/top.test.ts': 'starts processes and a terminal',
  'test/dashboard/fleet.test.ts': 'freezes Redis for seconds; dashboard.test.ts has the rest',
  'test/dashboard/page.test.ts': 'opens the page in a browser',
  'test/limiter/processes.test.ts':
    'starts processes; receipts-once.test.ts and wait-processes.test.ts have them in one process',
  'test/metrics/scrape.test.ts': 'starts Prometheus and waits for its queries; prometheus.test.ts has the metrics',
  'test/package/bundle.test.ts': 'bundles each entry',
  'test/package/editor.test.ts': 'asks the language server of TypeScript',
  'test/package/packaging.test.ts': 'installs the package and runs it in other tools',
  'test/package/projects.test.ts': 'installs the package in projects of users',
  'test/package/sizes.test.ts': 'bundles each entry and measures imports',
  'test/package/workers.test.ts': 'runs the package in workerd',
  'test/rules/editor.test.ts': 'asks the language server for YAML, which it installs',
  'test/rules/file.test.ts':
    'changes files in all ways of editors and waits for them; file-start.test.ts has the start',
  'test/stores/cloudflare.test.ts': 'runs the store in workerd; test/stores/cloudflare has each case',
  'test/stores/durable-objects.test.ts': 'runs the store and adapters in workerd; test/stores/cloudflare has each case',
  'test/stores/guard/busy.test.ts': 'blocks the event loop of processes for seconds',
  'test/stores/guard/cluster-outage.test.ts': 'stops nodes of a cluster',
  'test/stores/guard/faults/**': 'all clients, with each fault',
  'test/stores/guard/latency.test.ts': 'a minute behind slow proxies; deadline.test.ts has the same on a virtual clock',
  'test/stores/guard/slots.test.ts': '5,000 streams on Redis for 12 seconds; held-slots.test.ts has each case',
  'test/stores/machine/**': 'starts processes, PM2 too, and the suite of stores over sockets',
  'test/stores/memory/bytes.test.ts': 'measures the memory of floods',
  'test/stores/memory/cluster-warning.test.ts': 'starts clusters of processes',
  'test/stores/memory/footprint.test.ts': 'measures the memory of a million keys',
  'test/stores/redis/changed-retry.test.ts': 'a long search; adjust and equality have the same for fewer histories',
  'test/stores/redis/clients.test.ts': 'all clients of Redis, with a server and with a cluster',
  'test/stores/redis/concurrency.test.ts': 'hundreds of thousands of decisions at a time',
  'test/stores/redis/failover.test.ts': 'a cluster whose node fails',
  'test/stores/redis/faults.test.ts': 'all clients of Redis, with each fault',
  'test/stores/redis/functions-cluster.test.ts': 'starts clusters and replicas; functions.test.ts has one server',
  'test/stores/redis/lease-faults.test.ts': 'leases, with each fault of Redis',
  'test/stores/redis/slots-outage.test.ts': 'restarts Redis; guard/held-slots has each case',
  'test/stores/redis/slots-processes.test.ts': 'starts processes that die; test/stores/slots.test.ts has each case',
  'test/stores/redis/worker.test.ts': 'runs the store in workerd, which it installs',
  'test/stores/sql/connections.test.ts':
    'starts PostgreSQL and MariaDB, and breaks their connections; test/stores/connections.test.ts has each case',
  'test/stores/sql/locked.test.ts': 'starts PostgreSQL and MariaDB; test/stores/rows/locked.test.ts has each case',
  'test/stores/sql/mysql.test.ts': 'starts MariaDB; its rows are those of PostgreSQL and SQLite',
  'test/stores/sql/postgres-js.test.ts': 'a second client of PostgreSQL, with the whole suite of stores',
}

/** Returns whether a file is at a place: that file, or a folder that ends in `**`. */
export function isAt(place: string, file: string): boolean {
  return file === place || (place.endsWith('**') && file.startsWith(place.slice(0, -2)))
}

/** Returns true for a file that `npm test` runs, with all of its cases or with some. */
export function isInNpmTest(file: string): boolean {
  return !Object.keys(REST).some((place) => isAt(place, file))
}

/** Files that both parts run, each with its own cases of `casesHere`, and what differs. */
export const BOTH: Readonly<Record<string, string>> = {
  'test/rules/paths.test.ts': 'paths, and the time that hostile paths take',
  'test/adapters/adapters.test.ts': 'one framework for each adapter, and the other versions',
  'test/adapters/slots-attack.test.ts': 'two frameworks, and the others',
  'test/stores/guard/redis-outage.test.ts': 'two clients, and the others',
  'test/stores/deny-cache/exactness.test.ts': 'a short random search, and a long one',
  'test/stores/redis/causes.test.ts': 'two causes with two settings of one client, and all others',
  'test/stores/redis/equality.test.ts': 'a short random search, and a long one',
  'test/stores/redis/functions.test.ts': 'two clients, and the others',
  'test/stores/redis/own-algorithm.test.ts': 'two faults of an algorithm, and all faults in all ways',
  'test/stores/redis/upstash.test.ts': 'the client as it is, and the whole suite of stores with all settings',
  'test/stores/sql/equality.test.ts':
    'a short random search in SQLite and PostgreSQL, and a long one that includes MariaDB',
  'test/stores/sql/postgres.test.ts': 'one client, and the other with what takes seconds',
  'test/stores/sql/setup.test.ts': 'one client of PostgreSQL, and the other and MariaDB',
  'test/stores/sql/sqlite.test.ts': 'one process, and many that are busy',
  'test/stores/texts.test.ts': 'Redis and SQLite, and the other databases',
}

/**
 * Files that change modules or what they remember, or count what all files have made. All modules are loaded again for each of them, in processes
 * that only these files share: see `test/support/fresh-modules.ts`. The others share processes that load each module once. A file may be of both
 * parts, or of one.
 */
export const FRESH_MODULES: Readonly<Record<string, string>> = {
  'test/adapters/checks.test.ts': 'loads modules again',
  'test/adapters/fastify/early-routes.test.ts': 'loads the package after routes are declared',
  'test/adapters/hono/response-end.test.ts': 'loads modules again',
  'test/adapters/slots.test.ts': 'counts what waits in all limiters',
  'test/adapters/user-functions.test.ts': 'counts what waits in all limiters',
  'test/algorithms/extension.test.ts': 'adds an algorithm',
  'test/cli/logs/memory.test.ts': 'measures the heap',
  'test/cli/serve.test.ts': 'measures the heap',
  'test/dashboard/frameworks.test.ts': 'loads a response of Hono before its server replaces the class',
  'test/docs/examples.test.ts': 'replaces a module',
  'test/docs/walk.test.ts': 'lists all functions that run',
  'test/e2e/proxies/proxies.test.ts': 'waits for a warning that comes once',
  'test/http/checks.test.ts': 'loads modules again',
  'test/http/late-checks.test.ts': 'replaces a module',
  'test/limiter/mistakes.test.ts': 'loads modules again',
  'test/limiter/on-decision.test.ts': 'waits for a warning that comes once',
  'test/limiter/registration.test.ts': 'loads modules again',
  'test/limiter/slot-lost.test.ts': 'waits for a warning that comes once',
  'test/limiter/user-functions.test.ts': 'counts what waits in all limiters',
  'test/limiter/wait-loading.test.ts': 'replaces a module',
  'test/limiter/wait.test.ts': 'counts timers, and waits for a warning that comes once',
  'test/llm/meter.test.ts': 'measures the heap',
  'test/metrics/opentelemetry.test.ts': 'counts what all limiters hold',
  'test/metrics/prometheus.test.ts': 'counts what all limiters hold',
  'test/metrics/space-saving.test.ts': 'measures the heap',
  'test/metrics/top-denied.test.ts': 'measures the heap',
  'test/package/bundles.test.ts': 'waits for a warning that comes once',
  'test/rules/file.test.ts': 'adds an algorithm',
  'test/rules/rules.test.ts': 'measures the heap',
  'test/rules/text.test.ts': 'replaces a module',
  'test/stores/deny-cache/memory.test.ts': 'measures the heap',
  'test/stores/guard/guard.test.ts': 'waits for a warning that comes once, and measures the heap',
  'test/stores/lease.test.ts': 'measures the heap',
  'test/stores/machine/machine.test.ts': 'measures the heap',
  'test/stores/memory/keys.test.ts': 'measures the heap',
  'test/stores/notes.test.ts': 'waits for a warning that comes once',
  'test/stores/redis/adjust.test.ts': 'adds an algorithm',
  'test/stores/redis/functions.test.ts': 'adds an algorithm',
  'test/stores/redis/lease-faults.test.ts': 'waits for a warning that comes once',
  'test/stores/redis/own-algorithm.test.ts': 'adds algorithms',
  'test/stores/redis/plain.test.ts': 'adds an algorithm',
  'test/stores/redis/slots-outage.test.ts': 'waits for a warning that comes once',
  'test/stores/remote.test.ts': 'measures the heap',
  'test/stores/slots.test.ts': 'waits for a warning that comes once',
  'test/testing/testing.test.ts': 'adds an algorithm',
  'test/util/bounded-key.test.ts': 'loads modules again',
  'test/util/clock.test.ts': 'loads modules again',
  'test/util/copies.test.ts': 'replaces a module',
  'test/util/sha256.test.ts': 'loads modules again',
  'test/util/warn-later.test.ts': 'replaces a module',
}

/** Those of them that change what loading modules again does not bring back. Each has a process of its own. */
export const OWN_PROCESS: readonly string[] = [
  // A copy of the package that another file has loaded would see the routes.
  'test/adapters/fastify/early-routes.test.ts',
  // Their modules are replaced for the whole process.
  'test/algorithms/extension.test.ts',
  'test/docs/examples.test.ts',
  // The server replaces the class for the whole process.
  'test/dashboard/frameworks.test.ts',
  // Functions of other copies would be in the list.
  'test/docs/walk.test.ts',
  // The heap that they measure has nothing of other files.
  'test/cli/logs/memory.test.ts',
  'test/cli/serve.test.ts',
  'test/metrics/top-denied.test.ts',
  'test/stores/deny-cache/memory.test.ts',
  'test/stores/lease.test.ts',
  'test/stores/machine/machine.test.ts',
  'test/stores/memory/keys.test.ts',
]

/** The files that take longest, most of all first. They start first, so that none of them runs alone at the end. */
export const LONG: readonly string[] = [
  'test/docs/pages.test.ts',
  'test/docs/web-frameworks.test.ts',
  'test/stores/guard/faults/faults.test.ts',
  'test/site/site.test.ts',
  'test/docs/examples.test.ts',
  'test/dashboard/page.test.ts',
  'test/package/projects.test.ts',
  'test/adapters/slots-attack.test.ts',
  'test/stores/sql/mysql.test.ts',
  'test/stores/guard/cluster-outage.test.ts',
  'test/stores/sql/connections.test.ts',
  'test/stores/guard/busy.test.ts',
  'test/rules/file.test.ts',
  'test/stores/redis/failover.test.ts',
  'test/cli/serve.test.ts',
  'test/stores/machine/machine.test.ts',
]

/** Files of `npm run test:all` that measure how long requests wait for servers. They run after the others, one at a time. */
export const QUIET: Readonly<Record<string, string>> = {
  'test/soak/**': 'loads Redis, and has bounds for each wait',
  'test/stores/guard/latency.test.ts': 'no decision may take longer than a deadline',
  'test/stores/guard/slots.test.ts': 'no outage may be seen while 5,000 slots are renewed',
}

/** The lengths of random searches in `npm test`, unless they are given. `npm run test:all` has the defaults. */
export const SHORT_SEARCHES: Readonly<Record<string, string>> = {
  SLUICE_EQUALITY: '4000',
  SLUICE_DENIALS: '5000',
}

/**
 * Returns the cases of a test that belong to the part that runs: those that `isQuick` accepts are in `npm test`, the others in
 * `npm run test:all`. The file must be in {@link BOTH}.
 */
export function casesHere<Case>(all: readonly Case[], isQuick: (each: Case) => boolean): readonly Case[] {
  return PART === undefined ? all : all.filter((each) => isQuick(each) === (PART === 'quick'))
}

/** One case in `npm test`, and none in `npm run test:all`: for tests of a file in {@link BOTH} that all its cases share. */
export const QUICK: readonly string[] = casesHere(['once'], () => true)

/** One case in `npm run test:all`, and none in `npm test`: for slow tests of a file in {@link BOTH}. */
export const SLOW_ONCE: readonly string[] = casesHere(['once'], () => false)

/** Returns the cases that `isQuick` accepts in `npm test`, and all cases in `npm run test:all`, which takes more time for each. */
export function casesAtLength<Case>(all: readonly Case[], isQuick: (each: Case) => boolean): readonly Case[] {
  return PART === 'quick' ? all.filter(isQuick) : all
}
