import { inFile } from './mutation.mjs'

const closedTests = { files: ['test/limits/closed.test.ts'] }
const closed = inFile('src/algorithms/closed.ts', closedTests)
const closedInLua = inFile('src/algorithms/closed.ts', closedTests, 'Lua')
const compiled = inFile('src/limits/compiled-limit.ts', closedTests)
const local = inFile('src/stores/guard/local.ts', closedTests)
const values = inFile('src/http/headers/values.ts', closedTests)
const used = inFile('src/stores/store.ts', { files: ['test/limiter/used.test.ts'] })
const observer = inFile('src/limiter/decision-observer.ts', {
  files: ['test/limiter/on-decision.test.ts', 'test/adapters/adapters.test.ts'],
  name: 'is called|when it|onDecision',
})
const observers = inFile('src/limiter/default-limiter.ts', { files: ['test/limiter/on-decision.test.ts'] })

/** Mistakes in the options of limits and in what a decision reports. */
export const limits = [
  closed('a quota of 0 that denies a cost of 0', 'const allowed = cost === 0', 'const allowed = cost < 0'),
  closedInLua('a quota of 0 with a retry time in Lua', 'or huge', 'or 1'),
  compiled('a capacity of 0 not looked for', ' || algorithm.capacity?.(parameters) === 0', ''),
  local('a retry of a limit that admits nothing', ' && charge.policy.compiled.capacity > 0', ''),
  values('a quota of 0 that returns at once', 'if (values.quota === 0) return', 'if (values.quota < 0) return'),
  used('used below 0', 'used > 0 ? used : 0', 'used'),
  observer('an error of onDecision thrown', 'catch (error) {', 'catch (error) {\n      throw error'),
  observer(
    'any thenable taken for a promise',
    'void Promise.resolve(result).catch',
    'void (result as Promise<unknown>).catch',
  ),
  observers('a limiter called twice in a stack', '[...new Set(builders)]', 'builders'),
]
