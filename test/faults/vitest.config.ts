import { defineConfig } from 'vitest/config'
import config from '../../vitest.config.ts'

/** Runs all faults one after another: they measure times. */
const faults: ReturnType<typeof defineConfig> = defineConfig({
  ...config,
  test: { include: ['test/faults/*.faults.ts'], testTimeout: 120_000, hookTimeout: 60_000, fileParallelism: false },
})

export default faults
