import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import type { Plugin, TestProjectInlineConfiguration, ViteUserConfig } from 'vitest/config'
import { BaseSequencer, type Reporter, type TestSpecification } from 'vitest/node'
import manifest from './package.json' with { type: 'json' }
import { FRESH_MODULES, BOTH, isAt, LONG, OWN_PROCESS, QUIET, REST, SHORT_SEARCHES } from './test/parts.ts'

/** It is JavaScript without types. */
const { texts } = (await import(new URL('build/texts.mjs', import.meta.url).href)) as { texts(): Plugin }

/** The file for a report of all tests as JSON. */
const REPORT = process.env['SLUICE_REPORT']

/** Maps the names of the package to its sources, so that tests and examples run the current code. */
function ownNames(): { find: RegExp; replacement: string }[] {
  return Object.entries(manifest.exports).flatMap(([name, target]) => {
    if (typeof target === 'string') return []
    const source = target.import.default.replace('./dist/', './').replace(/\.js$/, '.ts')
    const find = new RegExp(`^${manifest.name}${name.slice(1)}$`)
    return [{ find, replacement: fileURLToPath(new URL(source, import.meta.url)) }]
  })
}

/**
 * A test that fails runs up to two more times. Many tests have real servers, processes and deadlines; on a machine that gives
 * them no time for a second, a healthy server really is too late. A mistake of the code fails each time. A failure that names
 * a seed was found by random values, which another run would replace: it never runs again.
 */
const AGAIN = { count: 2, condition: /^(?![\s\S]*\bseed\b)/ }

/** Lists the tests that passed in a second or third run. */
const again: Reporter = {
  onTestRunEnd(modules) {
    for (const module of modules) {
      for (const test of module.children.allTests('passed')) {
        const { retryCount = 0 } = test.diagnostic() ?? {}
        if (retryCount > 0)
          console.log(`passed in run ${retryCount + 1}: ${module.relativeModuleId} > ${test.fullName}`)
      }
    }
  },
}

/** Starts the files that take longest first. The others start in the order of Vitest. */
class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // oxlint-disable-next-line unicorn/no-array-sort -- this is no array
    const sorted = await super.sort(files)
    const first = LONG.flatMap((file) => sorted.filter(({ moduleId }) => moduleId.endsWith(`/${file}`)))
    return [...new Set([...first, ...sorted])]
  }
}

const EVERY = 'test/**/*.test.ts'

/** The files and folders of `npm run test:all`. */
const OTHERS = [...Object.keys(REST), ...Object.keys(BOTH)]

/** Files that load all modules again, in processes that they share. */
const FRESH = Object.keys(FRESH_MODULES).filter((file) => !OWN_PROCESS.includes(file))

const isInTestAll = (file: string): boolean => OTHERS.some((place) => isAt(place, file))

/** The set-up of files that share processes, and of those that load all modules again, which comes first. */
const SHARED = ['test/support/shared-process.ts', 'test/support/setup.ts']
const RELOADED = ['test/support/fresh-modules.ts', ...SHARED]

/** Returns the pattern of test files for a file or a folder. */
const testsOf = (place: string): string => place.replace(/\*\*$/, '**/*.test.ts')

/** A project of tests. What is before `-` in its name is the part, `quick` or `rest`. A run without `--project` has both parts. */
function part(
  name: string,
  include: readonly string[],
  options: Readonly<Omit<NonNullable<TestProjectInlineConfiguration['test']>, 'include' | 'name'>>,
): TestProjectInlineConfiguration {
  const env = Object.entries(options.env ?? {}).filter(([variable]) => process.env[variable] === undefined)
  const all = { ...Object.fromEntries(env), SLUICE_PART: name.split('-')[0]! }
  const setupFiles = ['test/support/setup.ts']
  return { extends: true, test: { setupFiles, ...options, name, include: [...include], env: all } }
}

const config: ViteUserConfig = {
  plugins: [texts()],
  resolve: { alias: ownNames() },
  test: {
    globalSetup: ['test/support/run-folder.ts', 'test/support/sqlite-addon.ts'],
    // Vitest would empty the style sheet of the dashboard.
    css: { include: /\?raw$/ },
    // Many files wait for servers and processes most of the time, so more of them run at once than there are processors.
    maxWorkers: availableParallelism() + 2,
    testTimeout: 20_000,
    hookTimeout: 60_000,
    projects: [
      part('quick', [EVERY], {
        exclude: [...Object.keys(REST), ...Object.keys(FRESH_MODULES)],
        env: SHORT_SEARCHES,
        isolate: false,
        setupFiles: SHARED,
      }),
      part('quick-fresh', FRESH, {
        exclude: Object.keys(REST),
        env: SHORT_SEARCHES,
        isolate: false,
        setupFiles: RELOADED,
      }),
      part('quick-alone', OWN_PROCESS, { exclude: Object.keys(REST), env: SHORT_SEARCHES }),
      part('rest', OTHERS.map(testsOf), {
        exclude: [...Object.keys(QUIET), ...Object.keys(FRESH_MODULES)],
        isolate: false,
        setupFiles: SHARED,
        sequence: { groupOrder: 1 },
      }),
      part('rest-fresh', FRESH.filter(isInTestAll), {
        isolate: false,
        setupFiles: RELOADED,
        sequence: { groupOrder: 1 },
      }),
      part('rest-alone', OWN_PROCESS.filter(isInTestAll), { sequence: { groupOrder: 1 } }),
      part('rest-quiet', Object.keys(QUIET).map(testsOf), { maxWorkers: 1, sequence: { groupOrder: 2 } }),
    ],
    sequence: { sequencer: LongFirst },
    retry: AGAIN,
    reporters: REPORT === undefined ? ['default', again] : ['default', again, ['json', { outputFile: REPORT }]],
  },
}

export default config
