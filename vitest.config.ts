import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import type { Plugin, ViteUserConfig } from 'vitest/config'
import manifest from './package.json' with { type: 'json' }

/** It is JavaScript without types. */
const { texts } = (await import(new URL('build/texts.mjs', import.meta.url).href)) as { texts(): Plugin }

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
 * Tests whose subject is real time: outages, deadlines and busy processes, with real servers. On a machine that gives their
 * processes no time for a second, a healthy Redis really is too late, so such a test may run three times. A mistake of the
 * code fails each time. The report shows each test that ran again. No test of random values belongs here.
 */
const REAL_TIME = [
  'test/stores/guard/{busy,cluster-outage,deny-cache,guard,log,redis-outage}.test.ts',
  'test/stores/guard/faults/*.test.ts',
  'test/docs/{outages,redis-outage}.test.ts',
  'test/rules/outage.test.ts',
]

const config: ViteUserConfig = {
  plugins: [texts()],
  resolve: { alias: ownNames() },
  test: {
    // Vitest would empty the style sheet of the dashboard.
    css: { include: /\?raw$/ },
    // Many files wait for servers and processes most of the time, so more of them run at once than there are processors.
    maxWorkers: availableParallelism() + 1,
    testTimeout: 20_000,
    hookTimeout: 60_000,
    projects: [
      { extends: true, test: { name: 'tests', include: ['test/**/*.test.ts'], exclude: REAL_TIME } },
      { extends: true, test: { name: 'real time', include: REAL_TIME, retry: 2 } },
    ],
  },
}

export default config
