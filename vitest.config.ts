import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import type { ViteUserConfig } from 'vitest/config'
import manifest from './package.json' with { type: 'json' }

/** Maps the names of the package to its sources, so that tests and examples run the current code. */
function ownNames(): { find: RegExp; replacement: string }[] {
  return Object.entries(manifest.exports).flatMap(([name, target]) => {
    if (typeof target === 'string') return []
    const source = target.import.default.replace('./dist/', './').replace(/\.js$/, '.ts')
    const find = new RegExp(`^${manifest.name}${name.slice(1)}$`)
    return [{ find, replacement: fileURLToPath(new URL(source, import.meta.url)) }]
  })
}

const config: ViteUserConfig = {
  resolve: { alias: ownNames() },
  test: {
    include: ['test/**/*.test.ts'],
    // Many files wait for servers and processes most of the time, so more of them run at once than there are processors.
    maxWorkers: availableParallelism() + 1,
    testTimeout: 20_000,
    hookTimeout: 60_000,
  },
}

export default config
